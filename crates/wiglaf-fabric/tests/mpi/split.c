/* Communicators do not hear each other, though ranks and tags are the same. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm copy, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    int partner = rank ^ 1;
    if (partner < size) {
        int first = rank * 10 + 1, second = rank * 10 + 2, got;
        MPI_Request requests[2];
        MPI_Isend(&first, 1, MPI_INT, partner, 4, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&second, 1, MPI_INT, partner, 4, copy, &requests[1]);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
        CHECK(got == partner * 10 + 2, "%d", got);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == partner * 10 + 1, "%d", got);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int round = 0; round < 20; round++) {
        int colour = rank % 2, sum, wanted = 0, new_rank, new_size;
        MPI_Comm_split(MPI_COMM_WORLD, colour, -rank, &half);
        MPI_Comm_rank(half, &new_rank);
        MPI_Comm_size(half, &new_size);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
        int mates = 0, above = 0;
        for (int r = colour; r < size; r += 2) wanted += r, mates++, above += r > rank;
        CHECK(new_size == mates && new_rank == above, "rank %d of %d", new_rank, new_size);
        CHECK(sum == wanted, "%d instead of %d", sum, wanted);
        MPI_Comm_free(&half);
    }
    MPI_Comm_free(&copy);
    return finish();
}
