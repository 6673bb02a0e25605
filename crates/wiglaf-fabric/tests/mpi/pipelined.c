/* Two ranks exchange messages around and beyond the length from which MPIs cut them in pieces. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int lens[] = {0, 8, 100000, (1 << 20) - 1, 2 << 20, (4 << 20) + 3, 9 << 20};
    int wrong = 0;
    for (unsigned k = 0; k < sizeof lens / sizeof *lens; k++) {
        unsigned char *out = malloc(lens[k] + 1), *in = calloc(lens[k] + 1, 1);
        for (int i = 0; i < lens[k]; i++)
            out[i] = (unsigned char)(i * 31 + i / 4096 + rank + k);
        MPI_Request requests[2];
        MPI_Isend(out, lens[k], MPI_BYTE, 1 - rank, k, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in, lens[k], MPI_BYTE, 1 - rank, k, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < lens[k]; i++)
            wrong += in[i] != (unsigned char)(i * 31 + i / 4096 + 1 - rank + k);
        free(out);
        free(in);
    }
    MPI_Finalize();
    puts(wrong ? "damaged" : "whole");
    return wrong != 0;
}
