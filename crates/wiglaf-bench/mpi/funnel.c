/* Funnel: all other ranks send a fixed number of messages to rank 0, all at once.
 *
 *   funnel COUNT LEN
 *
 * One JSON line from rank 0: wall time, the processor time of all ranks together, and what the
 * kernel and the transport counted on every node. Nobody waits before it has handed everything
 * over: what keeps senders from drowning the receiver is the transport's business. */
#include "common.h"
#include "counters.h"
#include <string.h>
#include <sys/resource.h>

enum { TAG = 1, COUNT_MAX = 100000 };

static int64_t cpu_ns(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc != 3 || ranks < 2) fail("usage: funnel COUNT LEN, on two ranks or more");
    int count = (int)number(argv[1], 1, COUNT_MAX), len = (int)number(argv[2], 1, 1 << 24);
    int all = rank ? count : count * (ranks - 1);
    MPI_Request *requests = need((size_t)all * sizeof *requests);
    unsigned char *buffer = need((size_t)len * (size_t)ranks);
    memset(buffer, rank, (size_t)len * (size_t)ranks);
    count_from_here();
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t wall = now_ns(), cpu = cpu_ns(), cpu_sum = 0;
    for (int i = 0; i < all; i++) {
        int other = rank ? 0 : 1 + i % (ranks - 1);
        if (rank) MPI_Isend(buffer, len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[i]);
        /* All messages of one sender share a place, as in the stream. */
        else MPI_Irecv(buffer + (size_t)other * (size_t)len, len, MPI_BYTE, other, TAG,
                       MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(all, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    wall = now_ns() - wall;
    cpu = cpu_ns() - cpu;
    for (int other = 1; rank == 0 && other < ranks; other++)
        for (size_t i = 0; i < (size_t)len; i++)
            if (buffer[(size_t)other * (size_t)len + i] != other) fail("wrong bytes");
    MPI_Reduce(&cpu, &cpu_sum, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"wall_ns\":%lld,\"cpu_ns\":%lld,\"payload\":%lld,", (long long)wall,
               (long long)cpu_sum, (long long)all * len);
    print_counters(rank, ranks);
    if (rank == 0) puts("}");
    MPI_Finalize();
    return 0;
}
