/* Two ranks send each other messages of known content, both ways at once, for so many seconds (one round at
 * least), and look at every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 20 };
static unsigned char outgoing[LONGEST], incoming[LONGEST];

static unsigned char pattern(int rank, unsigned round, int length, int at)
{
    return (unsigned char)(rank * 101 + round * 37 + length * 11 + at * 7 + (at >> 8) * 13);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 1, 8, 1400, 1473, 9000, 65536, LONGEST};
    double seconds = argc > 1 ? atof(argv[1]) : 0, end;
    unsigned round = 0;
    int rank, size, more = 1, i, at;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    end = MPI_Wtime() + seconds;
    for (; more; round++) {
        for (i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
            int length = lengths[i], got;
            MPI_Status status;
            for (at = 0; at < length; at++)
                outgoing[at] = pattern(rank, round, length, at);
            memset(incoming, 0, sizeof incoming);
            MPI_Sendrecv(outgoing, length, MPI_BYTE, 1 - rank, i, incoming, LONGEST, MPI_BYTE, 1 - rank, i,
                         MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            for (at = 0; got == length && at < length; at++)
                if (incoming[at] != pattern(1 - rank, round, length, at))
                    got = -1;
            if (got != length) {
                printf("rank %d: a message of %d bytes is wrong in round %u\n", rank, length, round);
                fflush(stdout);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        if (rank == 0 && round == 0) {
            printf("running\n");
            fflush(stdout);
        }
        more = MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("content is right, %u rounds\n", round);
    MPI_Finalize();
    return 0;
}
