/* A message longer than its buffer is an error that leaves the buffer's neighbours and all later
 * messages intact. (Open MPI's own ob1 over TCP writes beyond the buffer and fails here.) */
#include "check.h"

int main(int argc, char **argv)
{
    static const int lens[] = {20, 2000, 200000, 2000000};
    begin(&argc, &argv);
    int partner = rank ^ 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int late = 0; partner < size && late < 2; late++)
        for (int i = 0; i < 4; i++) {
            int len = lens[i], half = len / 2;
            unsigned char *buf = room((size_t)len);
            if (rank < partner) {
                int go;
                if (!late) MPI_Recv(&go, 1, MPI_INT, partner, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                fill(buf, (size_t)len, 3);
                CHECK(MPI_Send(buf, len, MPI_BYTE, partner, 1, MPI_COMM_WORLD) == MPI_SUCCESS,
                      "%d bytes", len);
                MPI_Send(buf, len, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
            } else {
                MPI_Request request;
                MPI_Status status;
                int error, class;
                memset(buf, 0xee, (size_t)len);
                if (late) {
                    /* Arrived before it is asked for. */
                    MPI_Probe(partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    error = MPI_Recv(buf, half, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &status);
                } else {
                    int go = 1;
                    MPI_Irecv(buf, half, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &request);
                    MPI_Send(&go, 1, MPI_INT, partner, 9, MPI_COMM_WORLD);
                    error = MPI_Wait(&request, &status);
                }
                MPI_Error_class(error, &class);
                CHECK(class == MPI_ERR_TRUNCATE, "%d bytes: class %d", len, class);
                for (int k = half; k < len; k++) CHECK(buf[k] == 0xee, "wrote beyond, at %d", k);
                error = MPI_Recv(buf, len, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &status);
                CHECK(error == MPI_SUCCESS && differs(buf, (size_t)len, 3) < 0, "the next one");
            }
            free(buf);
        }
    return finish();
}
