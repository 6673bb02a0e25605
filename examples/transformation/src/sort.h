/* Sorting what does not fit into memory, after M. Yoshimine, "The construction
 * of the Hamiltonian matrix in large-scale configuration interaction
 * calculations", J. Comput. Phys. 11, 449 (1973).
 *
 * Items (row, column, value) come in any order. Rows are dealt to buckets, each
 * of so few rows that its part of the matrix fits into memory. Every bucket has
 * a buffer; a full one goes to the sortfile as a block that knows where its
 * bucket's last one is. In the end each bucket's chain of blocks is followed
 * backwards, and its items take their places in the matrix. */
#ifndef SORT_H
#define SORT_H

#include <stddef.h>
#include <stdint.h>

/* Rows of one bucket when each takes `row_bytes` of `memory`, which is for the
 * matrix and for what is made of it; at least one. */
int64_t sort_bucket_rows(int64_t rows, size_t row_bytes, size_t memory);

/* For rows 0..rows of `columns` columns, in buckets of `bucket_rows`; the
 * buffers take `memory` bytes together. Ends the job when that is too little. */
struct sort *sort_create(const char *name, int64_t rows, int64_t columns, int64_t bucket_rows,
                         size_t memory);
void sort_put(struct sort *sort, int64_t row, int64_t column, double value);
/* No more items: writes what is left and frees the buffers. */
void sort_finish(struct sort *sort);

int sort_buckets(const struct sort *sort);
/* Fills `matrix`, zero where no item was put, and returns its number of rows. */
int64_t sort_load(struct sort *sort, int bucket, double *matrix);
/* Closes and removes the sortfile. */
void sort_free(struct sort *sort);

#endif
