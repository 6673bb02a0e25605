/* What LogGP's parameters are computed from, between two ranks.
 *
 *   loggp BUDGET_MS LEN...
 *
 * One JSON line from rank 0 for each length, all times in nanoseconds:
 *   round_trip_ns  a message there and one of the same length back
 *   send_ns        MPI_Send to a receiver that computes meanwhile
 *   isend_ns       MPI_Isend to the same
 *   recv_ns        MPI_Recv of a message that has come already, or that can come only now
 *   single_ns      one message there, an empty one back
 *   burst_ns       so many messages there as "burst" says, an empty one back
 *   away_ns        for so long the receiver computed
 * The times of single calls with a partner that is away are those of Culler, Liu, Martin and Yoshikawa (1996);
 * single and burst are PRTT(1,0,s) and PRTT(n,0,s) of Hoefler, Lichei and Rehm (2007). */
#include "common.h"

enum { SAMPLES_MIN = 15, SAMPLES_MAX = 1500, TRIES = 5, BURST = 16, BURST_LONG = 4, TAG = 1 };
enum { LONG_LEN = 1 << 16, AWAY_MIN_NS = 100000, AWAY_MAX_NS = 20000000 };

static int rank, len, burst;
static unsigned char *buffer;
static int64_t *mine;

static void send_to(int to, int bytes) { MPI_Send(buffer, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD); }

static void recv_from(int from, int bytes) {
    MPI_Recv(buffer, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* So many messages one way, and an answer of so many bytes. */
static void there_and_back(int messages, int back) {
    if (rank == 0) {
        for (int i = 0; i < messages; i++) send_to(1, len);
        recv_from(1, back);
    } else {
        for (int i = 0; i < messages; i++) recv_from(0, len);
        send_to(0, back);
    }
}

static void timed(int count, int messages, int back) {
    for (int i = 0; i < count; i++) {
        int64_t before = now_ns();
        there_and_back(messages, back);
        mine[i] = now_ns() - before;
    }
}

/* A message to somebody who is away. Rank 0 times its call, rank 1 its receive. */
static void away(int count, int64_t away_ns, int is_immediate) {
    for (int i = 0; i < count; i++) {
        if (rank == 0) {
            recv_from(1, 0);
            MPI_Request request = MPI_REQUEST_NULL;
            int64_t before = now_ns();
            if (is_immediate)
                MPI_Isend(buffer, len, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &request);
            else
                send_to(1, len);
            mine[i] = now_ns() - before;
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            send_to(0, 0);
            int64_t until = now_ns() + away_ns;
            while (now_ns() < until) continue;
            int64_t before = now_ns();
            recv_from(0, len);
            mine[i] = now_ns() - before;
        }
    }
}

static void tell(const char *name, int count) {
    if (rank != 0) return;
    printf(",\"%s\":", name);
    print_histogram(mine, count);
}

/* Tells what rank 1 has measured. */
static void tell_others(const char *name, int count) {
    if (rank == 1) MPI_Send(mine, count, MPI_INT64_T, 0, TAG, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Recv(mine, count, MPI_INT64_T, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    tell(name, count);
}

static void one_length(int64_t budget_ns) {
    burst = len > LONG_LEN ? BURST_LONG : BURST;
    timed(TRIES, 1, len);
    qsort(mine, TRIES, sizeof *mine, by_value);
    int64_t plan[2] = {budget_ns / (mine[TRIES / 2] + 1), AWAY_MIN_NS + 2 * mine[TRIES / 2]};
    if (plan[0] < SAMPLES_MIN) plan[0] = SAMPLES_MIN;
    if (plan[0] > SAMPLES_MAX) plan[0] = SAMPLES_MAX;
    if (plan[1] > AWAY_MAX_NS) plan[1] = AWAY_MAX_NS;
    MPI_Bcast(plan, 2, MPI_INT64_T, 0, MPI_COMM_WORLD);
    int count = (int)plan[0];
    /* Those with an absence or a burst take longer. */
    int fewer = count / 8 < SAMPLES_MIN ? SAMPLES_MIN : count / 8;

    timed(count, 1, len);
    if (rank == 0)
        printf("{\"len\":%d,\"burst\":%d,\"away_ns\":%lld", len, burst, (long long)plan[1]);
    tell("round_trip_ns", count);
    away(fewer, plan[1], 0);
    tell("send_ns", fewer);
    tell_others("recv_ns", fewer);
    away(fewer, plan[1], 1);
    tell("isend_ns", fewer);
    timed(fewer, 1, 0);
    tell("single_ns", fewer);
    timed(fewer, burst, 0);
    tell("burst_ns", fewer);
    if (rank == 0) puts("}");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || argc < 3) fail("usage: loggp BUDGET_MS LEN..., on two ranks");
    keep_to_core(rank);
    int64_t budget_ns = number(argv[1], 1, 100000) * 1000000;
    mine = need(SAMPLES_MAX * sizeof *mine);
    for (int arg = 2; arg < argc; arg++) {
        len = (int)number(argv[arg], 0, 1 << 24);
        buffer = need((size_t)len);
        for (int i = 0; i < len; i++) buffer[i] = (unsigned char)i;
        one_length(budget_ns);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
