/* Windows of messages between ranks 0 and 1, one way and both ways at once, for a list of message
 * lengths: the method of the OSU micro-benchmarks osu_bw, osu_bibw and, at 8 bytes, osu_mbw_mr.
 *
 *   stream BUDGET_MS WINDOW LEN...
 *
 * One JSON line for each length and way from rank 0: every window in nanoseconds, timed one by
 * one. One way, a window ends with a short answer of the receiver; both ways, with the last message
 * of either side. As in the OSU programs all messages of a window share one buffer on each side.
 * Every byte is checked before and after the timed windows, never inside them. */
#include "common.h"

enum { WARM_UP = 2, CHECKS = 2, WINDOWS_MIN = 6, WINDOWS_MAX = 20000, WINDOW_MAX = 1024 };
enum { TAG_DATA = 1, TAG_PLAN = 2, TAG_ANSWER = 3 };

static int rank, window;
static unsigned char *out, *in;
static MPI_Request requests[2 * WINDOW_MAX];

static unsigned char pattern(long len, int round, int from, long at) {
    uint32_t x = (uint32_t)(at * 2654435761u + len * 40503u + round * 97 + from * 31 + 7);
    return (unsigned char)(x >> 13 ^ x);
}

static void one_way(int len) {
    char answer = 0;
    if (rank == 0) {
        for (int i = 0; i < window; i++)
            MPI_Isend(out, len, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&answer, 1, MPI_BYTE, 1, TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < window; i++)
            MPI_Irecv(in, len, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        MPI_Send(&answer, 1, MPI_BYTE, 0, TAG_ANSWER, MPI_COMM_WORLD);
    }
}

static void both_ways(int len) {
    for (int i = 0; i < window; i++)
        MPI_Irecv(in, len, MPI_BYTE, !rank, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < window; i++)
        MPI_Isend(out, len, MPI_BYTE, !rank, TAG_DATA, MPI_COMM_WORLD, &requests[window + i]);
    MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
}

typedef void way_fn(int len);

/* A few windows with a fresh pattern each, compared byte by byte where they arrive. */
static void check(way_fn *way, int len, int seed) {
    for (int round = seed; round < seed + CHECKS; round++) {
        for (long i = 0; i < len; i++) {
            out[i] = pattern(len, round, rank, i);
            in[i] = (unsigned char)~pattern(len, round, !rank, i);
        }
        way(len);
        for (long i = 0; i < len && (rank == 1 || way == both_ways); i++)
            if (in[i] != pattern(len, round, !rank, i)) fail("a message arrived with wrong bytes");
    }
}

/* How many windows fit into the budget; rank 0 decides, both use it. */
static int plan(way_fn *way, int len, int64_t budget_ns) {
    int windows = 0;
    int64_t start = now_ns();
    for (int i = 0; i < WARM_UP; i++) way(len);
    int64_t each = (now_ns() - start) / WARM_UP + 1;
    if (rank == 0) {
        int64_t fit = budget_ns / each;
        windows = fit < WINDOWS_MIN ? WINDOWS_MIN : fit > WINDOWS_MAX ? WINDOWS_MAX : (int)fit;
        MPI_Send(&windows, 1, MPI_INT, 1, TAG_PLAN, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&windows, 1, MPI_INT, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return windows;
}

static void measure(way_fn *way, int len, int64_t budget_ns, int64_t *window_ns) {
    check(way, len, 0);
    int windows = plan(way, len, budget_ns);
    MPI_Barrier(MPI_COMM_WORLD);
    int64_t before = now_ns();
    for (int i = 0; i < windows; i++) {
        way(len);
        int64_t after = now_ns();
        window_ns[i] = after - before;
        before = after;
    }
    check(way, len, CHECKS);
    if (rank == 0) {
        printf("{\"len\":%d,\"ways\":%d,\"window_ns\":", len, way == both_ways ? 2 : 1);
        print_histogram(window_ns, windows);
        puts("}");
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc < 4 || ranks != 2) fail("usage: stream BUDGET_MS WINDOW LEN..., on exactly two ranks");
    int64_t budget_ns = number(argv[1], 1, 100000) * 1000000;
    window = (int)number(argv[2], 1, WINDOW_MAX);
    long len_max = 0;
    for (int a = 3; a < argc; a++) {
        long len = number(argv[a], 0, 1L << 30);
        if (len > len_max) len_max = len;
    }
    out = need((size_t)len_max);
    in = need((size_t)len_max);
    int64_t *window_ns = need(WINDOWS_MAX * sizeof *window_ns);
    for (int a = 3; a < argc; a++) {
        int len = (int)number(argv[a], 0, 1L << 30);
        measure(one_way, len, budget_ns, window_ns);
        measure(both_ways, len, budget_ns, window_ns);
    }
    MPI_Finalize();
    return 0;
}
