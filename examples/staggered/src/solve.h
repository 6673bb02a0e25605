/* Solves M x = b for staggered quarks, M = 2m + D, by conjugate gradient on the even sites. */
#ifndef SOLVE_H
#define SOLVE_H

#include "lattice.h"

/* Operations for each site of the lattice and each iteration, as MILC's benchmarks count them: twice D on
 * half of the sites, of 8 products of 66 and 7 sums of 6, and on the even half 36 for vectors. */
enum { OPERATIONS = 8 * 66 + 7 * 6 + 6 * 12 / 2 };

struct effort {
    int iterations;
    double seconds; /* within the conjugate gradient */
};

/* Iterations end at that many, or where the residual is below `residual` times the source. */
struct limit {
    int iterations;
    double residual;
};

struct effort solve(const struct lattice *l, vector *x, vector *b, double mass, struct limit limit);

/* |b - M x| / |b|, computed anew. */
double true_residual(const struct lattice *l, vector *x, const vector *b, double mass);

/* Square of a field's norm over all sites of all ranks. */
double norm2(const struct lattice *l, const vector *v);

#endif
