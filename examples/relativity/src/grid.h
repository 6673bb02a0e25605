/* A periodic grid of three dimensions, cut into boxes of which each rank has one, with ghost points around it. */
#ifndef GRID_H
#define GRID_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "equations.h"

struct grid {
    MPI_Comm comm;
    int rank, ranks;
    int whole[3];        /* points of the whole grid */
    int cut[3];          /* ranks along each dimension */
    int n[3], origin[3]; /* points of this rank, and the first one's place */
    ptrdiff_t stride[3]; /* from a point to the next one */
    ptrdiff_t points;    /* with the ghosts */
    double spacing;
    double *now, *next;  /* VARIABLES of each point */
    double *flux;        /* FLUXES of each point */
    int below[3], above[3];
    double *send[3][2], *receive[3][2]; /* a face's points, below and above */
    MPI_Request requests[12];
    int pending;
};

/* NULL where there are more ranks than the grid can be cut for. */
struct grid *grid_new(MPI_Comm comm, const int whole[3], double spacing);
void grid_free(struct grid *g);

/* Index of a point by its place in this rank's box; -1 and n are ghosts. */
static inline ptrdiff_t at(const struct grid *g, int x, int y, int z)
{
    return (x + 1) * g->stride[0] + (y + 1) * g->stride[1] + (z + 1) * g->stride[2];
}

/* Each point of this rank. */
#define FOR_POINTS(g, x, y, z)              \
    for (int z = 0; z < (g)->n[2]; z++)     \
        for (int y = 0; y < (g)->n[1]; y++) \
            for (int x = 0; x < (g)->n[0]; x++)

/* One step of that length (Shu and Osher 1988, three stages). */
void evolve(struct grid *g, double step);

/* The ghosts of `u` get what the neighbours have. */
void exchange(struct grid *g, double *u);

/* The largest of all ranks' values; NaN where one is. */
double largest(const struct grid *g, double value);
/* A number of all variables' bits, whichever rank has them. */
uint64_t digest(const struct grid *g);
/* The largest violation of the Hamiltonian constraint. */
double largest_hamiltonian(struct grid *g);
/* The largest disagreement(), see there. */
double largest_disagreement(struct grid *g);

uint64_t scramble(uint64_t x);
void *allocate(size_t count, size_t size);

#endif
