/* Funnel: all other ranks send a fixed number of messages to rank 0, all at once.
 *
 *   funnel COUNT LEN
 *
 * One JSON line from rank 0: wall time, the processor time of all ranks together, and what the
 * kernel and the transport counted on every node. Nobody waits before it has handed everything
 * over: what keeps senders from drowning the receiver is the transport's business.
 *
 * With WIGLAF_BENCH_LIMIT_MS in the environment a run that is not done by then says so, each rank on
 * a line of its own with what it has spent, and goes on: who started it ends it. */
#include "common.h"
#include "counters.h"
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

enum { TAG = 1, COUNT_MAX = 100000, LIMIT_MS_MAX = 1000000, LINE_GAP_MS = 200 };

static int rank;
static int64_t wall, cpu, limit_ns;
/* Whoever has it prints; the end of the run keeps it. */
static pthread_mutex_t last_word = PTHREAD_MUTEX_INITIALIZER;

static int64_t cpu_ns(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
           ((int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

static void sleep_ns(int64_t ns) {
    struct timespec pause = {ns / 1000000000, ns % 1000000000};
    if (ns > 0) nanosleep(&pause, NULL);
}

static void *watch(void *none) {
    static char text[STATS_LEN_MAX];
    sleep_ns(wall + limit_ns - now_ns());
    pthread_mutex_lock(&last_word);
    int64_t used = cpu_ns() - cpu;
    node_counters(text);
    /* Long lines of several ranks at once would be mixed on their way. */
    sleep_ns((int64_t)rank * LINE_GAP_MS * 1000000);
    printf("cut off {\"cpu_ns\":%lld,\"node\":%s}\n", (long long)used, text);
    fflush(stdout);
    pthread_mutex_unlock(&last_word);
    return none;
}

static void begin_to_watch(void) {
    const char *limit = getenv("WIGLAF_BENCH_LIMIT_MS");
    pthread_t thread;
    if (!limit) return;
    limit_ns = (int64_t)number(limit, 1, LIMIT_MS_MAX) * 1000000;
    if (pthread_create(&thread, NULL, watch, NULL)) fail("no thread for the limit");
}

int main(int argc, char **argv) {
    int ranks;
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
    int64_t cpu_sum = 0;
    wall = now_ns();
    cpu = cpu_ns();
    begin_to_watch();
    for (int i = 0; i < all; i++) {
        int other = rank ? 0 : 1 + i % (ranks - 1);
        if (rank) MPI_Isend(buffer, len, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[i]);
        /* All messages of one sender share a place, as in the stream. */
        else MPI_Irecv(buffer + (size_t)other * (size_t)len, len, MPI_BYTE, other, TAG,
                       MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(all, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_mutex_lock(&last_word);
    wall = now_ns() - wall;
    cpu = cpu_ns() - cpu;
    for (int other = 1; rank == 0 && other < ranks; other++)
        for (size_t i = 0; i < (size_t)len; i++)
            if (buffer[(size_t)other * (size_t)len + i] != other) fail("wrong bytes");
    MPI_Reduce(&cpu, &cpu_sum, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"wall_ns\":%lld,\"cpu_ns\":%lld,", (long long)wall, (long long)cpu_sum);
    print_counters(rank, ranks);
    if (rank == 0) puts("}");
    MPI_Finalize();
    return 0;
}
