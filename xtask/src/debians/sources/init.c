/* How long MPI_Init takes, in milliseconds: that of the slowest rank. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv) {
    struct timespec before, after;
    int rank;
    clock_gettime(CLOCK_MONOTONIC, &before);
    MPI_Init(&argc, &argv);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double slowest, own = (after.tv_sec - before.tv_sec) * 1e3 + (after.tv_nsec - before.tv_nsec) / 1e6;
    MPI_Reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%.1f\n", slowest);
    return MPI_Finalize();
}
