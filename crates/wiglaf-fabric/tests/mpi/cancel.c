/* A cancelled receive takes no message; one that has matched cannot be cancelled any more. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int partner = rank ^ 1;
    for (int round = 0; partner < size && round < 100; round++) {
        int wrong = -1, right = -1, sent = rank * 1000 + round, cancelled;
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(&wrong, 1, MPI_INT, partner, 5, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "round %d", round);
        /* Nobody sends before both have cancelled. */
        MPI_Sendrecv(NULL, 0, MPI_INT, partner, 7, NULL, 0, MPI_INT, partner, 7, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&sent, 1, MPI_INT, partner, 5, &right, 1, MPI_INT, partner, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(right == partner * 1000 + round, "%d", right);
        CHECK(wrong == -1, "the cancelled buffer was written to");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (partner < size) {
        int got = -1, sent = rank, cancelled;
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(&got, 1, MPI_INT, partner, 6, MPI_COMM_WORLD, &request);
        MPI_Send(&sent, 1, MPI_INT, partner, 6, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(!cancelled && got == partner, "%d", got);
    }
    return finish();
}
