/* Says who it is, after all ranks have added up their numbers. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int rank, ranks, sum, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s, sum %d\n", rank, ranks, name, sum);
    MPI_Finalize();
    return 0;
}
