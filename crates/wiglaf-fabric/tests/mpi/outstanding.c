/* Thousands of sends of mixed sizes in flight at once, from everyone to everyone, received in the
 * opposite order of posting groups. */
#include "check.h"

#define PER_PEER 600

static size_t len_of(int i)
{
    static const size_t lens[] = {0, 1, 8, 100, 1000, 1500, 3000, 9000, 170000, 17};
    return lens[i % 10];
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int total = PER_PEER * size;
    MPI_Request *requests = room(sizeof *requests * (size_t)total * 2);
    unsigned char **bufs = room(sizeof *bufs * (size_t)total * 2);
    int n = 0;
    for (int peer = 0; peer < size; peer++)
        for (int i = 0; i < PER_PEER; i++, n++) {
            bufs[n] = room(len_of(i));
            fill(bufs[n], len_of(i), (uint32_t)(rank * 1000 + peer) * 1000u + (uint32_t)i);
            MPI_Isend(bufs[n], (int)len_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[n]);
        }
    for (int peer = size - 1; peer >= 0; peer--)
        for (int i = PER_PEER - 1; i >= 0; i--, n++) {
            bufs[n] = room(len_of(i));
            MPI_Irecv(bufs[n], (int)len_of(i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[n]);
        }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    n = total;
    for (int peer = size - 1; peer >= 0; peer--)
        for (int i = PER_PEER - 1; i >= 0; i--, n++) {
            uint32_t seed = (uint32_t)(peer * 1000 + rank) * 1000u + (uint32_t)i;
            CHECK(differs(bufs[n], len_of(i), seed) < 0, "message %d of rank %d", i, peer);
        }
    for (n = 0; n < 2 * total; n++) free(bufs[n]);
    free(bufs);
    free(requests);
    return finish();
}
