/* What all parts share: who runs, how a failure ends the job, checked memory. */
#ifndef JOB_H
#define JOB_H

#include <stddef.h>
#include <stdint.h>

#define NODE_NAME_MAX 256

/* How the job was asked to run. */
struct options {
    const char *input;   /* the NWChem input: geometry and basis */
    const char *library; /* folder of NWChem's basis-set library */
    const char *scratch; /* folder for this node's files, on its own disk */
    const char *remote;  /* how the files of other nodes are reached: see files.h */
    size_t memory;       /* bytes for sorting, in each rank */
    size_t read_size;    /* bytes of one read */
    double cutoff;       /* integrals below are not kept, in hartree */
    int json;            /* report for machines */
};

struct job {
    int rank, ranks;
    char (*node)[NODE_NAME_MAX]; /* of every rank */
    struct options options;
};

extern struct job job;

/* The first of `count` things of this rank, when they are dealt out in ranges. */
static inline int64_t share_begin(int64_t count, int rank)
{
    return count * rank / job.ranks;
}

/* Says what went wrong, and ends all ranks. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Zeroed memory; ends the job when there is none. */
void *allocate(size_t count, size_t size);

#endif
