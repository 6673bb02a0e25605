/* Four threads of every rank send and receive at once: in blocking and nonblocking calls, by probe,
 * matched probe and from any source, each thread on a communicator of its own and all of them on a
 * common one, with messages from nothing to 1 MiB. */
#include "check.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS 48
#define LEN_MAX (1 << 20)

static MPI_Comm own[THREADS];

static size_t len_of(int round, int thread, int from)
{
    static const size_t lens[] = {0, 1, 8, 1000, 1397, 20000, 32768, 32769, 300000, LEN_MAX};
    return lens[(round * 7 + thread * 3 + from) % (int)(sizeof lens / sizeof *lens)];
}

static uint32_t seed_of(int round, int thread, int from)
{
    return (uint32_t)(round * 1000 + thread * 100 + from);
}

struct worker {
    int thread;
    unsigned char *out, *in;
};

/* This thread's message of the round, ready to be sent. */
static int prepare(struct worker *w, int round)
{
    size_t len = len_of(round, w->thread, rank);
    fill(w->out, len, seed_of(round, w->thread, rank));
    return (int)len;
}

/* What has been received must be that of `from`. */
static void check(struct worker *w, int round, int from, MPI_Status *status)
{
    size_t len = len_of(round, w->thread, from);
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK((size_t)count == len && status->MPI_SOURCE == from, "thread %d, round %d, from %d: %d bytes from %d",
          w->thread, round, from, count, status->MPI_SOURCE);
    CHECK(differs(w->in, len, seed_of(round, w->thread, from)) < 0, "thread %d, round %d, from %d",
          w->thread, round, from);
}

/* A nonblocking send to everybody else; the requests' number. */
static int send_to_all(struct worker *w, int len, int tag, MPI_Comm comm, MPI_Request *requests)
{
    int n = 0;
    for (int to = 0; to < size; to++)
        if (to != rank) MPI_Isend(w->out, len, MPI_BYTE, to, tag, comm, &requests[n++]);
    return n;
}

static void one_round(struct worker *w, int round)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, len = prepare(w, round);
    MPI_Comm comm = own[w->thread];
    MPI_Request requests[size];
    MPI_Message message;
    MPI_Status status;
    int n = 0, found = 0;

    switch ((round + w->thread) % 8) {
    case 0: /* blocking */
        MPI_Sendrecv(w->out, len, MPI_BYTE, right, round, w->in, LEN_MAX, MPI_BYTE, left, round, comm, &status);
        check(w, round, left, &status);
        break;
    case 1: /* blocking, one after the other */
        if (rank % 2) MPI_Recv(w->in, LEN_MAX, MPI_BYTE, rank - 1, round, comm, &status);
        if (rank % 2) check(w, round, rank - 1, &status);
        if (rank % 2 == 0 && rank + 1 < size) MPI_Send(w->out, len, MPI_BYTE, rank + 1, round, comm);
        break;
    case 2: /* synchronous, on the communicator of all threads, told apart by tags */
        MPI_Irecv(w->in, LEN_MAX, MPI_BYTE, left, round * THREADS + w->thread, MPI_COMM_WORLD, &requests[0]);
        MPI_Ssend(w->out, len, MPI_BYTE, right, round * THREADS + w->thread, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], &status);
        check(w, round, left, &status);
        break;
    case 3: /* from anybody */
        n = send_to_all(w, len, round, comm, requests);
        for (int i = 0; i < size - 1; i++) {
            MPI_Recv(w->in, LEN_MAX, MPI_BYTE, MPI_ANY_SOURCE, round, comm, &status);
            check(w, round, status.MPI_SOURCE, &status);
        }
        break;
    case 4: /* a probe, whose source and length the receive then has */
        n = send_to_all(w, len, round, comm, requests);
        for (int i = 0; i < size - 1; i++) {
            int count;
            MPI_Probe(MPI_ANY_SOURCE, round, comm, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            MPI_Recv(w->in, count, MPI_BYTE, status.MPI_SOURCE, round, comm, &status);
            check(w, round, status.MPI_SOURCE, &status);
        }
        break;
    case 5: /* a matched probe that does not wait, from anybody */
        n = send_to_all(w, len, round, comm, requests);
        for (int i = 0; i < size - 1; i++) {
            for (found = 0; !found;)
                MPI_Improbe(MPI_ANY_SOURCE, round, comm, &found, &message, &status);
            MPI_Mrecv(w->in, LEN_MAX, MPI_BYTE, &message, &status);
            check(w, round, status.MPI_SOURCE, &status);
        }
        break;
    case 6: /* a matched probe on the communicator of all threads (not of a synchronous send: over libfabric,
             * Open MPI 4.1.4 completes none that is received so, with one thread and any provider) */
        MPI_Isend(w->out, len, MPI_BYTE, right, round * THREADS + w->thread, MPI_COMM_WORLD, &requests[n++]);
        MPI_Mprobe(left, round * THREADS + w->thread, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(w->in, LEN_MAX, MPI_BYTE, &message, &status);
        check(w, round, left, &status);
        break;
    default: { /* a collective on the thread's communicator */
        int sum = -1, mine = rank + round;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2 + size * round, "thread %d, round %d: %d", w->thread, round, sum);
    }
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < ROUNDS; round++) one_round(w, round);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE, "%d", provided);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i, room(LEN_MAX), room(LEN_MAX)};
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&own[i]);
        free(workers[i].out);
        free(workers[i].in);
    }
    return finish();
}
