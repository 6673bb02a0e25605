/* Integrals over contracted Gaussians, by libcint. */
#ifndef INTEGRALS_H
#define INTEGRALS_H

#include <stdint.h>

#include "basis.h"

/* One two-electron integral (pq|rs) in a file, in hartree. */
struct integral {
    double value;
    uint16_t p, q, r, s;
};

/* Where the pair p >= q stands among all pairs. */
static inline int64_t pair_of(int p, int q)
{
    return (int64_t)p * (p + 1) / 2 + q;
}

/* Square matrices over all functions: overlap; kinetic energy and attraction by
 * the nuclei together. */
void integrals_one(struct basis *basis, double *overlap, double *core);

/* Writes this rank's share of the two-electron integrals to its file "integrals",
 * each of the eight that are equal once, p >= q, r >= s, pq >= rs. Returns how
 * many. */
int64_t integrals_write(struct basis *basis);

#endif
