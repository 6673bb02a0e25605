#include "job.h"

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct job job;

void fail(const char *format, ...)
{
    /* In one call, so that the ranks' lines stay whole. */
    char reason[4096], who[NODE_NAME_MAX + 32] = "";
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    if (job.ranks > 1)
        snprintf(who, sizeof who, "rank %d on %s: ", job.rank, job.node[job.rank]);
    fprintf(stderr, "transformation: %s%s\n", who, reason);
    int is_running = 0;
    MPI_Initialized(&is_running);
    if (is_running)
        MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("no memory for %zu times %zu bytes", count, size);
    return memory;
}
