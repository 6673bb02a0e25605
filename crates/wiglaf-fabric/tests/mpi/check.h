/* What the test programs share: a check that ends the whole job, and recognisable contents. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(holds, ...)                                                              \
    do {                                                                               \
        if (!(holds)) {                                                                \
            fprintf(stderr, "rank %d, %s:%d: not (%s): ", rank, __FILE__, __LINE__, #holds); \
            fprintf(stderr, __VA_ARGS__);                                              \
            fputc('\n', stderr);                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
        }                                                                              \
    } while (0)

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* The one line that the launching test looks for. */
static inline int finish(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("passed\n");
    MPI_Finalize();
    return 0;
}

/* Byte `i` of the message `seed`; neighbours and other messages differ. */
static inline unsigned char pattern(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u + (uint32_t)i * 40503u;
    return (unsigned char)(x >> 11 ^ x >> 3);
}

static inline void fill(unsigned char *buf, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) buf[i] = pattern(seed, i);
}

/* Where `buf` differs from the message, or -1. */
static inline long differs(const unsigned char *buf, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        if (buf[i] != pattern(seed, i)) return (long)i;
    return -1;
}

static inline void *room(size_t len)
{
    void *buf = malloc(len ? len : 1);
    if (!buf) abort();
    return buf;
}

#endif
