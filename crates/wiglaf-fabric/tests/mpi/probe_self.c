/* A probe of any source and the receive of any source behind it find the same message, also when one
   of those that wait came from the rank itself. */
#include "check.h"

#define ROUNDS 500
#define TAG 3

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int before = (rank + size - 1) % size, after = (rank + 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int value = rank, from_self = 0, from_other = 0;
        MPI_Request sent[2];
        MPI_Status done[2];
        MPI_Isend(&value, 1, MPI_INT, after, TAG, MPI_COMM_WORLD, &sent[0]);
        /* What the other has sent is there, or not yet. */
        if (round % 2) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(&value, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, &sent[1]);
        for (int n = 0; n < 2; n++) {
            MPI_Status probed, received;
            int got;
            MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &probed);
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &received);
            CHECK(probed.MPI_SOURCE == received.MPI_SOURCE, "round %d: probed %d, received %d", round,
                  probed.MPI_SOURCE, received.MPI_SOURCE);
            CHECK(got == received.MPI_SOURCE, "%d says %d", received.MPI_SOURCE, got);
            from_self += got == rank;
            from_other += got == before;
        }
        CHECK(size == 1 || (from_self == 1 && from_other == 1), "%d, %d", from_self, from_other);
        MPI_Waitall(2, sent, done);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return finish();
}
