/* The integral transformation in two halves, each a sort and two multiplications:
 *
 *   (pq|rs)  ->  (pq|ia)  ->  (jb|ia)
 *
 * p, q, r, s are functions, i, j occupied orbitals and a, b virtual ones.
 *
 * First half. Pairs pq are dealt to the ranks in ranges. Every rank reads the
 * file "integrals" of every rank, keeps what belongs to its pairs, sorts that
 * to its sortfile, and transforms rs to ia for each of its pq.
 *
 * Second half. Pairs ia are dealt to the ranks. Every rank reads its columns
 * of the secondary file "half" of every rank, sorts them so that all pq of an
 * ia are together, and transforms pq to jb. Rows (ia|jb) of its ia are then in
 * its file "whole". */
#ifndef TRANSFORM_H
#define TRANSFORM_H

#include <stdint.h>

#include "scf.h"
#include "sort.h"

struct transformation {
    const struct orbitals *orbitals;
    int64_t pairs;      /* pq, p >= q */
    int64_t products;   /* ia */
    int64_t *integrals; /* in each rank's file */
};

/* Each returns the finished sort, which the half after it reads and frees. */
struct sort *sort_first(const struct transformation *t);
void half_first(const struct transformation *t, struct sort *sort);
struct sort *sort_second(const struct transformation *t);
void half_second(const struct transformation *t, struct sort *sort);

#endif
