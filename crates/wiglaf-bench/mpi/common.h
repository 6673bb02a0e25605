/* What the measuring programs share: the clock, the sample list and its JSON form. */
#ifndef WIGLAF_BENCH_COMMON_H
#define WIGLAF_BENCH_COMMON_H

#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorted and run-length coded: [[value,times],...]. Exact, and far shorter than a plain list. */
static void print_histogram(int64_t *ns, int count) {
    qsort(ns, (size_t)count, sizeof *ns, by_value);
    putchar('[');
    for (int i = 0; i < count;) {
        int same = i;
        while (same < count && ns[same] == ns[i]) same++;
        printf("%s[%lld,%d]", i ? "," : "", (long long)ns[i], same - i);
        i = same;
    }
    putchar(']');
}

static void fail(const char *why) {
    fprintf(stderr, "wiglaf-bench: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
}

static void *need(size_t len) {
    void *memory = malloc(len ? len : 1);
    if (!memory) fail("out of memory");
    return memory;
}

static long number(const char *text, long min, long max) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < min || value > max) fail("bad argument");
    return value;
}

/* Ranks of one node that has several cores: each to its own, as the list says ("0,1"). */
static void keep_to_core(int rank) {
    const char *list = getenv("WIGLAF_BENCH_CORES");
    if (!list || !*list) return;
    for (int skip = rank; skip > 0; skip--) {
        while (*list && *list != ',') list++;
        if (!*list++) fail("WIGLAF_BENCH_CORES names too few cores");
    }
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(strtol(list, NULL, 10), &core);
    if (sched_setaffinity(0, sizeof core, &core)) fail("a core of WIGLAF_BENCH_CORES is not ours");
}

#endif
