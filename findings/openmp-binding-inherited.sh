#!/usr/bin/env bash
# What: OMP_PROC_BIND=true and what a program starts besides its OpenMP threads; Debian's libgomp1 12.2.0-14 (gcc 12.2).
# Guess: the OpenMP threads of a parallel region are bound; other threads and child processes keep the job's processors.
# Happens: libgomp binds the main thread to one core when it is loaded, before main() and before any region. Each thread
#   that the program starts (an MPI's or a libfabric provider's progress thread, OpenBLAS's pool) and each process (fork,
#   system, Python's multiprocessing) inherits that one core and shares it with OpenMP thread 0. A child's `nproc` says 1.
# Who meets it: hybrid programs with OMP_PROC_BIND=true (or GOMP_CPU_AFFINITY) in the job script; Python that imports one
#   extension with OpenMP, then starts N worker processes: all on one core, the others idle, no message.
# Instead: OMP_PROC_BIND=false where other threads matter, or sched_setaffinity in the new thread or child to what mpirun
#   bound the rank to; look at Cpus_allowed_list in /proc/PID/task/*/status.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
[ "$(nproc)" -ge 2 ] || { echo "skipped: needs two processors"; exit 0; }
gcc --version | head -n 1
cat >"$T/program.c" <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
static int processors(void) { cpu_set_t set; sched_getaffinity(0, sizeof set, &set); return CPU_COUNT(&set); }
static void *thread(void *when) { printf("thread started %s the first region: %d processors\n", (char *)when, processors()); return when; }
static void start(char *when) {
    pthread_t id; pthread_create(&id, NULL, thread, when); pthread_join(id, NULL); fflush(stdout);
    printf("process started %s the first region, nproc: ", when); fflush(stdout);
    if (system("env -u OMP_NUM_THREADS nproc")) exit(1);
}
int main(void) {
    start("before");
    int threads = 0;
    #pragma omp parallel reduction(+ : threads)
    threads += 1;
    printf("the region had %d threads\n", threads);
    start("after");
}
C
gcc -O1 -fopenmp -pthread -o "$T/program" "$T/program.c"
for bind in false true; do
    echo "OMP_PROC_BIND=$bind"; env -u GOMP_CPU_AFFINITY -u OMP_PLACES OMP_NUM_THREADS=2 OMP_PROC_BIND=$bind "$T/program"
done | tee "$T/out"
all=$(nproc)
diff - "$T/out" <<P
OMP_PROC_BIND=false
thread started before the first region: $all processors
process started before the first region, nproc: $all
the region had 2 threads
thread started after the first region: $all processors
process started after the first region, nproc: $all
OMP_PROC_BIND=true
thread started before the first region: 1 processors
process started before the first region, nproc: 1
the region had 2 threads
thread started after the first region: 1 processors
process started after the first region, nproc: 1
P
echo "as observed: each thread and process that the program starts has one processor"
