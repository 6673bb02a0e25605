/* Backlog: what a receiver finds that was away while others sent.
 *
 *   backlog TIMES AWAY_MS COUNT LEN ORDER
 *
 * TIMES times, rank 0 is away for AWAY_MS milliseconds, in which every other rank sends it COUNT
 * messages of LEN bytes, and then receives all: one rank's after the other's. ORDER 0: all have one
 * tag. ORDER 1: each has its own, and the last that was sent is asked for first. ORDER 2: as 1, but
 * rank 0 has posted all receives before anybody sends.
 *
 * One JSON line from rank 0: from when it is back, or with ORDER 2 from the first send, to the last
 * message, in nanoseconds. */
#include "common.h"
#include <string.h>
#include <unistd.h>

static int rank, ranks, count, order;
static size_t len;
static unsigned char *memory;
static MPI_Request *requests;

static int tag_of(int message) { return order ? message : 0; }

static void write_mark(unsigned char *at, int sender, int message) {
    int32_t mark[2] = {sender, message};
    memcpy(at, mark, sizeof mark);
}

static void send_all(void) {
    for (int message = 0; message < count; message++) {
        unsigned char *at = memory + (size_t)message * len;
        write_mark(at, rank, message);
        MPI_Isend(at, (int)len, MPI_BYTE, 0, tag_of(message), MPI_COMM_WORLD, &requests[message]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void post_all(void) {
    for (int sender = 1; sender < ranks; sender++) {
        for (int i = 0; i < count; i++) {
            int message = order ? count - 1 - i : i;
            size_t at = (size_t)(sender - 1) * (size_t)count + (size_t)i;
            MPI_Irecv(memory + at * len, (int)len, MPI_BYTE, sender, tag_of(message),
                      MPI_COMM_WORLD, &requests[at]);
        }
    }
}

static void check_all(void) {
    for (int sender = 1; sender < ranks; sender++) {
        for (int i = 0; i < count; i++) {
            unsigned char expected[8];
            write_mark(expected, sender, order ? count - 1 - i : i);
            size_t at = (size_t)(sender - 1) * (size_t)count + (size_t)i;
            if (memcmp(memory + at * len, expected, sizeof expected)) fail("a wrong message");
        }
    }
}

static int64_t once(int away_ms) {
    int64_t start = 0, end = 0;
    if (rank == 0 && order == 2) post_all();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        send_all();
    } else {
        if (order == 2) {
            start = now_ns();
        } else {
            usleep((useconds_t)away_ms * 1000);
            start = now_ns();
            post_all();
        }
        MPI_Waitall((ranks - 1) * count, requests, MPI_STATUSES_IGNORE);
        end = now_ns();
        check_all();
        memset(memory, 0, (size_t)(ranks - 1) * (size_t)count * len);
    }
    return end - start;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc != 6 || ranks < 2)
        fail("usage: backlog TIMES AWAY_MS COUNT LEN ORDER, on two ranks or more");
    int times = (int)number(argv[1], 1, 100000);
    int away_ms = (int)number(argv[2], 0, 900);
    count = (int)number(argv[3], 1, 32000);
    len = (size_t)number(argv[4], 8, 1 << 20);
    order = (int)number(argv[5], 0, 2);
    size_t messages = (size_t)count * (size_t)(rank == 0 ? ranks - 1 : 1);
    memory = need(messages * len);
    memset(memory, 0, messages * len);
    requests = need(messages * sizeof *requests);
    int64_t *ns = need((size_t)times * sizeof *ns);
    once(away_ms);
    for (int i = 0; i < times; i++) ns[i] = once(away_ms);
    if (rank == 0) {
        printf("{\"ns\":");
        print_histogram(ns, times);
        puts("}");
    }
    MPI_Finalize();
    return 0;
}
