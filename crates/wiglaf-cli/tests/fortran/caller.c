/* Calls every mangling that compilers make of MPI_ALLREDUCE, with -1 for .TRUE. */
#include <mpi.h>
#include <stdio.h>
typedef void reduction(int *, int *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
reduction mpi_allreduce, mpi_allreduce_, mpi_allreduce__, MPI_ALLREDUCE;
reduction pmpi_allreduce, pmpi_allreduce_, pmpi_allreduce__, PMPI_ALLREDUCE;
int main(int argc, char **argv) {
    reduction *all[] = {mpi_allreduce, mpi_allreduce_, mpi_allreduce__, MPI_ALLREDUCE,
                        pmpi_allreduce, pmpi_allreduce_, pmpi_allreduce__, PMPI_ALLREDUCE};
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Fint one = 1, world = MPI_Comm_c2f(MPI_COMM_WORLD), error;
    MPI_Fint logical = MPI_Type_c2f(MPI_LOGICAL), and = MPI_Op_c2f(MPI_LAND);
    for (int i = 0; i < 8; i++) {
        int mine = -1, result = 5;
        all[i](&mine, &result, &one, &logical, &and, &world, &error);
        if (rank == 0) printf(i < 7 ? "%d " : "%d\n", result);
    }
    return MPI_Finalize();
}
