/* A plugin that uses MPI. */
#include <mpi.h>
#include <stdio.h>

int work(void) {
    int rank, ranks, sum;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\n", rank, ranks, sum);
    return MPI_Finalize();
}
