/* What the lattice is filled with. Random numbers depend on the seed and on a site's number in the
 * whole lattice, so that any number of ranks makes the same fields. */
#ifndef FIELDS_H
#define FIELDS_H

#include "lattice.h"

/* Streams of random numbers. */
enum { LINKS = 1, TURNS = 2, SOURCE = 3 };

enum gauge { UNIT, RANDOM };

struct gauge_field {
    enum gauge gauge;
    unsigned long seed;
    int is_turned; /* by a gauge transformation */
};

/* Sets the links with their phases. */
void set_links(struct lattice *l, const struct gauge_field *g);
/* Real part of a plaquette's trace, 3 for unit links: the mean of all. */
double plaquette(const struct lattice *l, const struct gauge_field *g);

/* A source of normally distributed numbers, on sites of one parity or both. */
void set_source(const struct lattice *l, vector *v, unsigned long seed, int has_odd);
/* Applies the gauge transformation of that seed to a field. */
void turn(const struct lattice *l, vector *v, unsigned long seed);

#endif
