/* Large messages both ways at once, between all pairs, and to oneself. */
#include "check.h"

#define LEN (6u << 20)

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned char *out = room(LEN), **in = room(sizeof *in * (size_t)size);
    MPI_Request *requests = room(sizeof *requests * (size_t)size * 2);
    for (int r = 0; r < size; r++) in[r] = room(LEN);
    for (int round = 0; round < 3; round++) {
        int n = 0;
        fill(out, LEN, (uint32_t)(rank * 10 + round));
        for (int r = 0; r < size; r++)
            MPI_Irecv(in[r], LEN, MPI_BYTE, r, round, MPI_COMM_WORLD, &requests[n++]);
        for (int r = 0; r < size; r++)
            MPI_Isend(out, LEN, MPI_BYTE, r, round, MPI_COMM_WORLD, &requests[n++]);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int r = 0; r < size; r++)
            CHECK(differs(in[r], LEN, (uint32_t)(r * 10 + round)) < 0, "from %d at %ld", r,
                  differs(in[r], LEN, (uint32_t)(r * 10 + round)));
        /* The same again with sends first, so that receives find them waiting. */
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        memset(in[0], 0, LEN);
        MPI_Sendrecv(out, LEN, MPI_BYTE, next, 77, in[0], LEN, MPI_BYTE, before, 77,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(differs(in[0], LEN, (uint32_t)(before * 10 + round)) < 0, "in the ring");
    }
    for (int r = 0; r < size; r++) free(in[r]);
    free(in);
    free(out);
    free(requests);
    return finish();
}
