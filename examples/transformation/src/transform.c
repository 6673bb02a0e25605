#include "transform.h"

#include <math.h>
#include <stdlib.h>

#include "files.h"
#include "integrals.h"
#include "job.h"
#include "linear.h"

/* The pairs of one bucket of a rank. Every rank knows those of all: they are how
 * the secondary files are laid out. */
static int64_t bucket_pairs(const struct transformation *t, int rank)
{
    int64_t rows = share_begin(t->pairs, rank + 1) - share_begin(t->pairs, rank);
    return sort_bucket_rows(rows, (size_t)(t->pairs + t->products) * sizeof(double),
                            job.options.memory);
}

/* Own file first, then the next ranks': not all of them read the same disk. */
static int owner_in_turn(int turn)
{
    return (job.rank + turn) % job.ranks;
}

struct sort *sort_first(const struct transformation *t)
{
    int64_t begin = share_begin(t->pairs, job.rank), end = share_begin(t->pairs, job.rank + 1);
    struct sort *sort = sort_create("sort", end - begin, t->pairs, bucket_pairs(t, job.rank),
                                    job.options.memory);
    for (int turn = 0; turn < job.ranks; turn++) {
        int owner = owner_in_turn(turn);
        struct input *input = input_open(owner, "integrals");
        input_range(input, 0, t->integrals[owner] * (int64_t)sizeof(struct integral));
        const void *data;
        for (size_t len; (len = input_next(input, &data));) {
            const struct integral *in = data;
            for (size_t i = 0; i < len / sizeof *in; i++) {
                int64_t pq = pair_of(in[i].p, in[i].q), rs = pair_of(in[i].r, in[i].s);
                if (pq >= begin && pq < end)
                    sort_put(sort, pq - begin, rs, in[i].value);
                if (rs >= begin && rs < end && rs != pq)
                    sort_put(sort, rs - begin, pq, in[i].value);
            }
        }
        input_close(input);
    }
    sort_finish(sort);
    return sort;
}

/* Room for one row's transformation. */
struct room {
    double *square, *half;
};

static struct room room_create(const struct orbitals *o)
{
    size_t n = (size_t)o->functions;
    return (struct room){allocate(n * n, sizeof(double)),
                         allocate(n * (size_t)o->occupied, sizeof(double))};
}

/* A row over pairs of functions to one over products of orbitals. */
static void transform_row(const struct orbitals *o, struct room room, const double *row,
                          double *out)
{
    int n = o->functions;
    const double *virtuals = o->coefficients + (size_t)o->occupied * n;
    for (int p = 0; p < n; p++)
        for (int q = 0; q <= p; q++)
            room.square[p * n + q] = room.square[q * n + p] = *row++;
    multiply(o->occupied, n, n, o->coefficients, 0, room.square, 0, room.half);
    multiply(o->occupied, o->virtuals, n, room.half, 0, virtuals, 1, out);
}

/* The secondary file: for each bucket a matrix with a row for each ia, so that
 * the part of the rank that an ia belongs to is in one piece. */
void half_first(const struct transformation *t, struct sort *sort)
{
    int64_t bucket_rows = bucket_pairs(t, job.rank);
    double *matrix = allocate((size_t)(bucket_rows * t->pairs), sizeof *matrix);
    double *turned = allocate((size_t)(bucket_rows * t->products), sizeof *turned);
    double *products = allocate((size_t)t->products, sizeof *products);
    struct room room = room_create(t->orbitals);
    struct output *output = output_create("half");
    for (int bucket = 0; bucket < sort_buckets(sort); bucket++) {
        int64_t rows = sort_load(sort, bucket, matrix);
        for (int64_t row = 0; row < rows; row++) {
            transform_row(t->orbitals, room, matrix + row * t->pairs, products);
            for (int64_t ia = 0; ia < t->products; ia++)
                turned[ia * rows + row] = products[ia];
        }
        output_write(output, turned, (size_t)(rows * t->products) * sizeof *turned);
    }
    output_close(output);
    free(room.square);
    free(room.half);
    free(products);
    free(turned);
    free(matrix);
    sort_free(sort);
}

/* One bucket of a secondary file: pairs first..first + rows. */
struct chunk {
    int64_t at, first, rows;
};

/* Sorts this rank's rows, ia from `begin` to `end`, of one chunk. */
static void sort_chunk(const struct transformation *t, struct input *input, struct chunk chunk,
                       struct sort *sort)
{
    int64_t begin = share_begin(t->products, job.rank);
    int64_t end = share_begin(t->products, job.rank + 1);
    int64_t bytes = chunk.rows * (int64_t)sizeof(double);
    int64_t row = 0, column = chunk.first;
    const void *data;
    input_range(input, chunk.at + begin * bytes, (end - begin) * bytes);
    for (size_t len; (len = input_next(input, &data));) {
        const double *value = data;
        for (size_t i = 0; i < len / sizeof *value; i++) {
            if (fabs(value[i]) >= job.options.cutoff)
                sort_put(sort, row, column, value[i]);
            if (++column == chunk.first + chunk.rows) {
                column = chunk.first;
                row++;
            }
        }
    }
}

struct sort *sort_second(const struct transformation *t)
{
    int64_t rows = share_begin(t->products, job.rank + 1) - share_begin(t->products, job.rank);
    size_t row_bytes = (size_t)(t->pairs + t->products) * sizeof(double);
    struct sort *sort = sort_create("sort", rows, t->pairs,
                                    sort_bucket_rows(rows, row_bytes, job.options.memory),
                                    job.options.memory);
    for (int turn = 0; turn < job.ranks; turn++) {
        int owner = owner_in_turn(turn);
        int64_t end = share_begin(t->pairs, owner + 1), step = bucket_pairs(t, owner);
        struct chunk chunk = {0, share_begin(t->pairs, owner), step};
        struct input *input = input_open(owner, "half");
        for (; chunk.first < end; chunk.first += step) {
            chunk.rows = end - chunk.first < step ? end - chunk.first : step;
            sort_chunk(t, input, chunk, sort);
            chunk.at += chunk.rows * t->products * (int64_t)sizeof(double);
        }
        input_close(input);
    }
    sort_finish(sort);
    return sort;
}

void half_second(const struct transformation *t, struct sort *sort)
{
    int64_t rows = share_begin(t->products, job.rank + 1) - share_begin(t->products, job.rank);
    size_t row_bytes = (size_t)(t->pairs + t->products) * sizeof(double);
    int64_t bucket_rows = sort_bucket_rows(rows, row_bytes, job.options.memory);
    double *matrix = allocate((size_t)(bucket_rows * t->pairs), sizeof *matrix);
    double *products = allocate((size_t)t->products, sizeof *products);
    struct room room = room_create(t->orbitals);
    struct output *output = output_create("whole");
    for (int bucket = 0; bucket < sort_buckets(sort); bucket++) {
        int64_t count = sort_load(sort, bucket, matrix);
        for (int64_t row = 0; row < count; row++) {
            transform_row(t->orbitals, room, matrix + row * t->pairs, products);
            output_write(output, products, (size_t)t->products * sizeof *products);
        }
    }
    output_close(output);
    free(room.square);
    free(room.half);
    free(products);
    free(matrix);
    sort_free(sort);
}
