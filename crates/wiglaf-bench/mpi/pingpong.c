/* Ping-pong between ranks 0 and 1 for a list of message lengths.
 *
 *   pingpong BUDGET_MS LEN...
 *
 * One JSON line per length from rank 0: every round trip in nanoseconds, timed one by one.
 * Each length is measured for about BUDGET_MS, so a run takes as long over a slow path as over a
 * fast one. Every byte is checked before and after the timed loop, never inside it. */
#include "common.h"

enum { WARM_UP = 20, CHECKS = 3, ITERATIONS_MIN = 24, ITERATIONS_MAX = 20000 };
enum { TAG_DATA = 1, TAG_PLAN = 2 };

static unsigned char *out, *in;

static unsigned char pattern(long len, int round, int from, long at) {
    uint32_t x = (uint32_t)(at * 2654435761u + len * 40503u + round * 97 + from * 31 + 7);
    return (unsigned char)(x >> 13 ^ x);
}

static void exchange(int rank, int len, unsigned char *send, unsigned char *recv) {
    if (rank == 0) {
        MPI_Send(send, len, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(recv, len, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(recv, len, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(send, len, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
}

/* A few exchanges with a fresh pattern each, compared byte by byte on both sides. */
static void check(int rank, int len, int seed) {
    for (int round = seed; round < seed + CHECKS; round++) {
        for (long i = 0; i < len; i++) {
            out[i] = pattern(len, round, rank, i);
            in[i] = (unsigned char)~pattern(len, round, !rank, i);
        }
        exchange(rank, len, out, in);
        for (long i = 0; i < len; i++)
            if (in[i] != pattern(len, round, !rank, i)) fail("a message arrived with wrong bytes");
    }
}

/* How many iterations fit into the budget; rank 0 decides, both use it. */
static int plan(int rank, int len, long budget_ns) {
    int iterations = 0;
    int64_t start = now_ns();
    for (int i = 0; i < WARM_UP; i++) exchange(rank, len, out, in);
    int64_t each = (now_ns() - start) / WARM_UP + 1;
    if (rank == 0) {
        int64_t fit = budget_ns / each;
        iterations = fit < ITERATIONS_MIN ? ITERATIONS_MIN
                     : fit > ITERATIONS_MAX ? ITERATIONS_MAX : (int)fit;
        MPI_Send(&iterations, 1, MPI_INT, 1, TAG_PLAN, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&iterations, 1, MPI_INT, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return iterations;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc < 3 || ranks != 2) fail("usage: pingpong BUDGET_MS LEN..., on exactly two ranks");
    long budget_ns = number(argv[1], 1, 100000) * 1000000, len_max = 0;
    for (int a = 2; a < argc; a++) {
        long len = number(argv[a], 0, 1L << 30);
        if (len > len_max) len_max = len;
    }
    out = need((size_t)len_max);
    in = need((size_t)len_max);
    int64_t *round_trip_ns = need(ITERATIONS_MAX * sizeof *round_trip_ns);

    for (int a = 2; a < argc; a++) {
        int len = (int)number(argv[a], 0, 1L << 30);
        check(rank, len, 0);
        int iterations = plan(rank, len, budget_ns);
        int64_t before = now_ns();
        for (int i = 0; i < iterations; i++) {
            exchange(rank, len, out, in);
            int64_t after = now_ns();
            round_trip_ns[i] = after - before;
            before = after;
        }
        check(rank, len, CHECKS);
        if (rank == 0) {
            printf("{\"len\":%d,\"round_trip_ns\":", len);
            print_histogram(round_trip_ns, iterations);
            puts("}");
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
