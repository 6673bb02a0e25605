#include "sort.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "job.h"

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

struct item {
    uint32_t row, column; /* the row within its bucket */
    double value;
};

/* As in memory, so in the sortfile. */
struct block {
    int64_t before; /* where the bucket's last block is, -1: nowhere */
    int64_t items;
    struct item item[];
};

struct sort {
    int64_t rows, columns, bucket_rows;
    int buckets, fd;
    size_t block_bytes;
    int64_t block_items, end; /* where the next block goes */
    char *buffers;            /* a block for each bucket, then one to read into */
    int64_t *last;            /* of each bucket's blocks that are written */
    char path[4096];
};

int64_t sort_bucket_rows(int64_t rows, size_t row_bytes, size_t memory)
{
    int64_t fit = (int64_t)(memory / row_bytes);
    if (fit < 1)
        fail("--memory is too little: a row of the matrix takes %zu KiB", row_bytes / 1024 + 1);
    return fit < rows ? fit : rows > 0 ? rows : 1;
}

struct sort *sort_create(const char *name, int64_t rows, int64_t columns, int64_t bucket_rows,
                         size_t memory)
{
    struct sort *sort = allocate(1, sizeof *sort);
    sort->rows = rows;
    sort->columns = columns;
    sort->bucket_rows = bucket_rows;
    sort->buckets = (int)((rows + bucket_rows - 1) / bucket_rows);
    size_t share = memory / (size_t)(sort->buckets ? sort->buckets : 1);
    if (share < BLOCK_MIN)
        fail("--memory is too little: %d buckets have %zu bytes each for their buffers",
             sort->buckets, share);
    sort->block_bytes = share < BLOCK_MAX ? share / BLOCK_MIN * BLOCK_MIN : BLOCK_MAX;
    sort->block_items =
        (int64_t)((sort->block_bytes - sizeof(struct block)) / sizeof(struct item));
    sort->buffers = allocate((size_t)sort->buckets, sort->block_bytes);
    sort->last = allocate((size_t)sort->buckets, sizeof *sort->last);
    for (int i = 0; i < sort->buckets; i++)
        sort->last[i] = -1;
    files_own_path(name, sort->path, sizeof sort->path);
    sort->fd = open(sort->path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (sort->fd < 0)
        fail("cannot create %s: %s", sort->path, strerror(errno));
    return sort;
}

static struct block *buffer_of(struct sort *sort, int bucket)
{
    return (struct block *)(sort->buffers + (size_t)bucket * sort->block_bytes);
}

/* All of a block, to or from the sortfile. */
static void transfer(struct sort *sort, struct block *block, int64_t at, int is_write)
{
    size_t done = 0;
    while (done < sort->block_bytes) {
        char *data = (char *)block + done;
        size_t left = sort->block_bytes - done;
        off_t offset = (off_t)(at + (int64_t)done);
        ssize_t moved = is_write ? pwrite(sort->fd, data, left, offset)
                                 : pread(sort->fd, data, left, offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            fail("sortfile %s: %s", sort->path, moved ? strerror(errno) : "ends too soon");
        done += (size_t)moved;
    }
}

static void write_block(struct sort *sort, int bucket)
{
    struct block *block = buffer_of(sort, bucket);
    block->before = sort->last[bucket];
    sort->last[bucket] = sort->end;
    transfer(sort, block, sort->end, 1);
    sort->end += (int64_t)sort->block_bytes;
    block->items = 0;
}

void sort_put(struct sort *sort, int64_t row, int64_t column, double value)
{
    int bucket = (int)(row / sort->bucket_rows);
    struct block *block = buffer_of(sort, bucket);
    if (block->items == sort->block_items)
        write_block(sort, bucket);
    block->item[block->items++] = (struct item){
        (uint32_t)(row - bucket * sort->bucket_rows), (uint32_t)column, value};
}

void sort_finish(struct sort *sort)
{
    for (int i = 0; i < sort->buckets; i++)
        if (buffer_of(sort, i)->items)
            write_block(sort, i);
    free(sort->buffers);
    sort->buffers = allocate(1, sort->block_bytes);
}

int sort_buckets(const struct sort *sort)
{
    return sort->buckets;
}

int64_t sort_load(struct sort *sort, int bucket, double *matrix)
{
    int64_t left = sort->rows - bucket * sort->bucket_rows;
    int64_t rows = left < sort->bucket_rows ? left : sort->bucket_rows;
    struct block *block = buffer_of(sort, 0);
    memset(matrix, 0, (size_t)(rows * sort->columns) * sizeof *matrix);
    for (int64_t at = sort->last[bucket]; at >= 0; at = block->before) {
        transfer(sort, block, at, 0);
        for (int64_t i = 0; i < block->items; i++) {
            const struct item *item = &block->item[i];
            matrix[item->row * sort->columns + item->column] = item->value;
        }
    }
    return rows;
}

void sort_free(struct sort *sort)
{
    close(sort->fd);
    files_remove(sort->path);
    free(sort->buffers);
    free(sort->last);
    free(sort);
}
