/* Four threads of every rank send and receive at once, each with its own tag. */
#include "check.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS 300

static void *work(void *arg)
{
    int tag = (int)(intptr_t)arg, partner = rank ^ 1;
    static const size_t lens[] = {0, 8, 1000, 20000, 300000};
    unsigned char *out = room(300000), *in = room(300000);
    for (int round = 0; partner < size && round < ROUNDS; round++) {
        size_t len = lens[(round + tag) % 5];
        uint32_t seed = (uint32_t)(tag * 1000 + round);
        MPI_Request requests[2];
        fill(out, len, seed + (uint32_t)rank * 77777u);
        MPI_Irecv(in, (int)len, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, (int)len, MPI_BYTE, partner, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(differs(in, len, seed + (uint32_t)partner * 77777u) < 0, "tag %d, round %d", tag, round);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE, "%d", provided);
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return finish();
}
