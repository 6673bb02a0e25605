/* Messages of all lengths around a ring, each byte checked, for so many seconds (0: for ever).
 * Rank 0 prints `running` when all have begun, and `passed` at the end. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEN_MAX = 1 << 18 };

static unsigned char byte_of(int rank, int round, int at) {
    return (unsigned char)(rank * 31 + round * 7 + at + (at >> 8));
}

int main(int argc, char **argv) {
    static unsigned char out[LEN_MAX], in[LEN_MAX];
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double start = MPI_Wtime();
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0, go_on = 1; go_on; round++) {
        int len = 1 << (round % 19), sum = 0;
        for (int i = 0; i < len; i++) out[i] = byte_of(rank, round, i);
        MPI_Sendrecv(out, len, MPI_BYTE, next, round % 1000, in, len, MPI_BYTE, before, round % 1000,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < len; i++) {
            if (in[i] != byte_of(before, round, i)) {
                printf("rank %d, round %d: byte %d of %d is wrong\n", rank, round, i, len);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
        }
        int one = rank + round % 10;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2 + size * (round % 10)) MPI_Abort(MPI_COMM_WORLD, 4);
        if (rank == 0 && round == 20) {
            puts("running");
            fflush(stdout);
        }
        go_on = round < 40 || seconds == 0 || MPI_Wtime() - start < seconds;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) puts("passed");
    MPI_Finalize();
    return 0;
}
