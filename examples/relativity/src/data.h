/* What a grid begins with, and what it must be later. A wave's period is a unit of length. */
#ifndef DATA_H
#define DATA_H

#include "grid.h"

/* The gauge wave: flat space in coordinates that move, 1 - a sin(2 pi k (x - t)) along `k`. */
struct wave {
    double amplitude;
    int k[3]; /* waves in a unit of length along each dimension */
};

/* Its exact variables at a time. */
void wave_at(const struct wave *w, const double x[3], double time, double *u);
void set_wave(struct grid *g, const struct wave *w);
/* The largest difference of any variable from the exact one. */
double wave_error(const struct grid *g, const struct wave *w, double time);

/* Flat space, and in each variable a random number up to `amplitude`. */
void set_noise(struct grid *g, double amplitude, unsigned long seed);
/* The largest difference of any variable from flat space. */
double noise_size(const struct grid *g);

/* A smooth curved space with all components, which solves no equation. */
void set_curved(struct grid *g);

#endif
