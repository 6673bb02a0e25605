/* Windows of messages from rank 0 to rank 1 without pause, for so many seconds: for who measures
 * from outside.
 *
 *   flow SECONDS WINDOW LEN
 *
 * Every byte of the last message of each window is checked. */
#include "common.h"
#include <string.h>

enum { WINDOW_MAX = 1024 };
static MPI_Request requests[WINDOW_MAX];

int main(int argc, char **argv) {
    int rank, go = 1;
    if (argc != 4) fail("usage: flow SECONDS WINDOW LEN");
    double seconds = atof(argv[1]);
    int window = atoi(argv[2]), len = atoi(argv[3]);
    if (window < 1 || window > WINDOW_MAX || len < 0) fail("a number is out of range");
    unsigned char *buffer = malloc(len + 1);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double began = MPI_Wtime();
    for (unsigned round = 0; go; round++) {
        if (rank == 0) {
            memset(buffer, round & 255, len);
            for (int i = 0; i < window; i++)
                MPI_Isend(buffer, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            go = MPI_Wtime() - began < seconds;
            MPI_Send(&go, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        } else {
            memset(buffer, ~round & 255, len);
            for (int i = 0; i < window; i++)
                MPI_Irecv(buffer, len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < len; i++)
                if (buffer[i] != (round & 255)) fail("a message arrived with wrong bytes");
            MPI_Recv(&go, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    return 0;
}
