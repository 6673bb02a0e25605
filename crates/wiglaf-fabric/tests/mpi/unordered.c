/* Ten thousand messages that nobody asks for yet do not keep a later one from being received. */
#include "check.h"

#define WAITING 10000

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int partner = rank ^ 1;
    if (partner < size && rank > partner) {
        int (*values)[2] = room(sizeof *values * WAITING), last[2] = {-1, rank};
        MPI_Request *requests = room(sizeof *requests * (WAITING + 1));
        for (int i = 0; i < WAITING; i++) {
            values[i][0] = i;
            values[i][1] = rank;
            MPI_Isend(values[i], 2, MPI_INT, partner, 1, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Isend(last, 2, MPI_INT, partner, 2, MPI_COMM_WORLD, &requests[WAITING]);
        MPI_Waitall(WAITING + 1, requests, MPI_STATUSES_IGNORE);
        free(values);
        free(requests);
    } else if (partner < size) {
        int value[2];
        MPI_Recv(value, 2, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value[0] == -1 && value[1] == partner, "%d", value[0]);
        for (int i = 0; i < WAITING; i++) {
            MPI_Recv(value, 2, MPI_INT, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(value[0] == i && value[1] == partner, "%d instead of %d", value[0], i);
        }
    }
    return finish();
}
