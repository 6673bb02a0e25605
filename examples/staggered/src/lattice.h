/* A lattice of four dimensions, cut into equal boxes of which each rank has one.
 *
 * A rank's sites are in the order even, odd: `even` sites come first, those whose coordinates in the
 * whole lattice have an even sum. All extents of a box are even, so both are half of it. Behind the
 * sites a field of vectors has slots for what neighbours send. */
#ifndef LATTICE_H
#define LATTICE_H

#include <mpi.h>
#include <stddef.h>

#include "su3.h"

enum { DIMS = 4, EVEN = 0, ODD = 1 };

/* What one rank exchanges with another of one dimension: sites on both surfaces, by parity. */
struct surface {
    int count;           /* sites of each parity */
    int *low[2];         /* sites at the low end, by parity */
    int *high[2];        /* sites at the high end */
    int below, above;    /* ranks */
    vector *send_low, *send_high;
};

struct lattice {
    MPI_Comm comm;
    int rank, ranks;
    int whole[DIMS];     /* extents of the lattice */
    int grid[DIMS];      /* ranks along each dimension */
    int box[DIMS];       /* extents of a rank's part */
    int origin[DIMS];    /* of this rank's part */
    int sites, half;     /* of this rank, and of each parity */
    int slots;           /* sites with all slots behind them: the length of a field */
    int (*at)[DIMS];     /* coordinates of each site in the whole lattice */
    int *up[DIMS];       /* index of the next site, or its slot */
    int *down[DIMS];     /* index of the site before, or the slot of its product */
    int *inner[2], *outer[2]; /* sites of a parity without and with a neighbour elsewhere */
    int inners[2], outers[2];
    struct surface surface[DIMS];
    /* Links to the next site in each dimension, with the phases of staggered quarks and of the
     * antiperiodic time. */
    matrix *link[DIMS];
};

/* Cuts `whole` into as many boxes as there are ranks of comm; NULL where that cannot be done. */
struct lattice *lattice_new(MPI_Comm comm, const int whole[DIMS]);
void lattice_free(struct lattice *l);

/* Number of a site in the whole lattice, whoever has it; coordinates may lie outside by a period. */
long site_number(const struct lattice *l, const int at[DIMS]);
/* The sum of all ranks' values. */
double sum_over_ranks(const struct lattice *l, double value);

vector *field_new(const struct lattice *l);

/* to = D from, on the sites of parity `to_parity`; reads `from` on the others.
 *   (D v)(x) = sum over mu of U_mu(x) v(x + mu) - U_mu(x - mu)^+ v(x - mu), phases in U. */
void derivative(const struct lattice *l, vector *to, vector *from, int to_parity);

void *allocate(size_t count, size_t size);
_Noreturn void fail(const char *format, ...);

#endif
