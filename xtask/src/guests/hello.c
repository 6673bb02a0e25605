/* Says where each rank is and what all ranks agree on; with a number, so many seconds later. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char host[64] = "";
    int rank, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        sleep((unsigned)atoi(argv[1]));
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host - 1);
    printf("%s agrees on %d\n", host, sum);
    MPI_Finalize();
    return 0;
}
