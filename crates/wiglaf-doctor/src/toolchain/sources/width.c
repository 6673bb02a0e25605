/* Whether an int is as wide as MPI's INTEGER. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int bytes;
    MPI_Init(&argc, &argv);
    MPI_Type_size(MPI_INTEGER, &bytes);
    printf("width %zu of MPI %d\n", sizeof(int), bytes == (int)sizeof(MPI_Fint) ? bytes : -1);
    return MPI_Finalize();
}
