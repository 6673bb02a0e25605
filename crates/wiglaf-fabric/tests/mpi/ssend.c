/* A synchronous send is not over before its receive has begun. */
#include "check.h"

int main(int argc, char **argv)
{
    static const int lens[] = {0, 1, 1000, 200000, 2000000};
    begin(&argc, &argv);
    int partner = rank ^ 1;
    for (int i = 0; partner < size && i < 5; i++) {
        unsigned char *buf = room((size_t)lens[i]);
        int go = 1;
        if (rank < partner) {
            MPI_Request request;
            int done = 0;
            fill(buf, (size_t)lens[i], (uint32_t)i);
            MPI_Issend(buf, lens[i], MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
            for (int n = 0; n < 200; n++) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                CHECK(!done, "%d bytes: over before the receiver was told to start", lens[i]);
            }
            MPI_Send(&go, 1, MPI_INT, partner, 2, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Ssend(buf, lens[i], MPI_BYTE, partner, 3, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&go, 1, MPI_INT, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int tag = 1; tag <= 3; tag += 2) {
                memset(buf, 0, (size_t)lens[i]);
                MPI_Recv(buf, lens[i], MPI_BYTE, partner, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(differs(buf, (size_t)lens[i], (uint32_t)i) < 0, "%d bytes", lens[i]);
            }
        }
        free(buf);
    }
    return finish();
}
