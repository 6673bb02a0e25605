/* Collectives and exchanges, as programs call them.
 *
 *   collectives BUDGET_MS OPERATIONS LENGTHS
 *
 * OPERATIONS are names of the table below, LENGTHS bytes, both with commas between. One JSON line from
 * rank 0 for each operation and length: how often, and nanoseconds of a call. Before each call there is a
 * barrier; a rank's time is that from its return to the return of the call. Of each call the mean of the
 * ranks and the slowest rank's time are kept. LENGTH is what one rank sends to one other (alltoall,
 * gather, scatter, allgather, exchanges) or the whole vector (bcast, reductions). The content of each
 * operation's answer is checked once for each length, as is that of the last call.
 *
 * Non-blocking operations are measured twice: call and wait alone, and with as long a computation between
 * the two as that takes, which makes no call of MPI. Overlap is what part of the operation it hid:
 * 1 - (both - computation) / alone, not below 0. */
#include "common.h"
#include <string.h>

enum { WARM_UP = 3, TRIAL = 4, CALLS_MIN = 5, CALLS_MAX = 2000, SIDES = 6 };

static int rank, ranks;
static int sides[SIDES];          /* neighbours in a grid of three dimensions */
static int *counts, *places;      /* in numbers, for the operations with a v */
static int32_t *out, *in;
static int n;                     /* numbers of 4 bytes in one block */
static MPI_Request request;

static MPI_Comm const all = MPI_COMM_WORLD;

/* What `from` sends to `to` at place i; small, so that sums stay exact. */
static int32_t token(int from, int to, int i) { return (from * 31 + to * 7 + i) & 0xffff; }

static int32_t sum_of_tokens(int i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; r++) sum += token(r, 0, i);
    return sum;
}

static void expect(int32_t got, int32_t wanted) {
    if (got != wanted) fail("a collective gave a wrong answer");
}

/* First, middle and last number of a block. */
static int spot(int which) { return which == 0 ? 0 : which == 1 ? n / 2 : n - 1; }

static void fill_same(void) { for (int i = 0; i < n; i++) out[i] = token(rank, 0, i); }
static void fill_each(void) {
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < n; i++) out[(size_t)to * (size_t)n + (size_t)i] = token(rank, to, i);
}
static void fill_bcast(void) { for (int i = 0; i < n; i++) in[i] = rank == 0 ? token(0, 0, i) : -1; }

static void check_nothing(void) {}
static void check_bcast(void) { for (int s = 0; s < 3; s++) expect(in[spot(s)], token(0, 0, spot(s))); }
static void check_sum(void) { for (int s = 0; s < 3; s++) expect(in[spot(s)], sum_of_tokens(spot(s))); }
static void check_root_sum(void) { if (rank == 0) check_sum(); }
static void check_part_sum(void) {
    for (int i = 0; i < counts[rank]; i += counts[rank] > 1 ? counts[rank] - 1 : 1)
        expect(in[i], sum_of_tokens(places[rank] + i));
}
static void check_gathered(void) {
    for (int r = 0; r < ranks; r++)
        for (int s = 0; s < 3; s++)
            expect(in[(size_t)r * (size_t)n + (size_t)spot(s)], token(r, 0, spot(s)));
}
static void check_root_gathered(void) { if (rank == 0) check_gathered(); }
static void check_each(void) {
    for (int r = 0; r < ranks; r++)
        for (int s = 0; s < 3; s++)
            expect(in[(size_t)r * (size_t)n + (size_t)spot(s)], token(r, rank, spot(s)));
}
static void check_scattered(void) {
    for (int s = 0; s < 3; s++) expect(in[spot(s)], token(0, rank, spot(s)));
}
static void check_ring(void) {
    int left = (rank + ranks - 1) % ranks;
    for (int s = 0; s < 3; s++) expect(in[spot(s)], token(left, 0, spot(s)));
}
static void check_halo(void) {
    for (int side = 0; side < SIDES; side++)
        for (int s = 0; s < 3; s++)
            expect(in[(size_t)side * (size_t)n + (size_t)spot(s)], token(sides[side], 0, spot(s)));
}

static void call_barrier(void) { MPI_Barrier(all); }
static void call_bcast(void) { MPI_Bcast(in, n, MPI_INT32_T, 0, all); }
static void call_reduce(void) { MPI_Reduce(out, in, n, MPI_INT32_T, MPI_SUM, 0, all); }
static void call_allreduce(void) { MPI_Allreduce(out, in, n, MPI_INT32_T, MPI_SUM, all); }
static void call_reduce_scatter(void) {
    MPI_Reduce_scatter(out, in, counts, MPI_INT32_T, MPI_SUM, all);
}
static void call_allgather(void) { MPI_Allgather(out, n, MPI_INT32_T, in, n, MPI_INT32_T, all); }
static void call_allgatherv(void) {
    MPI_Allgatherv(out, n, MPI_INT32_T, in, counts, places, MPI_INT32_T, all);
}
static void call_alltoall(void) { MPI_Alltoall(out, n, MPI_INT32_T, in, n, MPI_INT32_T, all); }
static void call_alltoallv(void) {
    MPI_Alltoallv(out, counts, places, MPI_INT32_T, in, counts, places, MPI_INT32_T, all);
}
static void call_gather(void) { MPI_Gather(out, n, MPI_INT32_T, in, n, MPI_INT32_T, 0, all); }
static void call_scatter(void) { MPI_Scatter(out, n, MPI_INT32_T, in, n, MPI_INT32_T, 0, all); }
static void call_ring(void) {
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Sendrecv(out, n, MPI_INT32_T, right, 1, in, n, MPI_INT32_T, left, 1, all, MPI_STATUS_IGNORE);
}
static void call_halo(void) {
    MPI_Request each[2 * SIDES];
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(in + (size_t)side * (size_t)n, n, MPI_INT32_T, sides[side], side, all, &each[side]);
    /* What one sends upwards comes to the other from below: sides come in pairs. */
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(out, n, MPI_INT32_T, sides[side], side ^ 1, all, &each[SIDES + side]);
    MPI_Waitall(2 * SIDES, each, MPI_STATUSES_IGNORE);
}

static void start_ibcast(void) { MPI_Ibcast(in, n, MPI_INT32_T, 0, all, &request); }
static void start_iallreduce(void) {
    MPI_Iallreduce(out, in, n, MPI_INT32_T, MPI_SUM, all, &request);
}
static void start_iallgather(void) {
    MPI_Iallgather(out, n, MPI_INT32_T, in, n, MPI_INT32_T, all, &request);
}
static void start_ialltoall(void) {
    MPI_Ialltoall(out, n, MPI_INT32_T, in, n, MPI_INT32_T, all, &request);
}

enum counted { SAME, PARTS, NONE };

static const struct operation {
    const char *name;
    void (*fill)(void), (*call)(void), (*check)(void);
    int is_split;       /* `call` only starts it */
    enum counted counted;
} operations[] = {
    {"barrier", check_nothing, call_barrier, check_nothing, 0, NONE},
    {"bcast", fill_bcast, call_bcast, check_bcast, 0, NONE},
    {"reduce", fill_same, call_reduce, check_root_sum, 0, NONE},
    {"allreduce", fill_same, call_allreduce, check_sum, 0, NONE},
    {"reduce_scatter", fill_same, call_reduce_scatter, check_part_sum, 0, PARTS},
    {"allgather", fill_same, call_allgather, check_gathered, 0, NONE},
    {"allgatherv", fill_same, call_allgatherv, check_gathered, 0, SAME},
    {"alltoall", fill_each, call_alltoall, check_each, 0, NONE},
    {"alltoallv", fill_each, call_alltoallv, check_each, 0, SAME},
    {"gather", fill_same, call_gather, check_root_gathered, 0, NONE},
    {"scatter", fill_each, call_scatter, check_scattered, 0, NONE},
    {"ring", fill_same, call_ring, check_ring, 0, NONE},
    {"halo", fill_same, call_halo, check_halo, 0, NONE},
    {"ibcast", fill_bcast, start_ibcast, check_bcast, 1, NONE},
    {"iallreduce", fill_same, start_iallreduce, check_sum, 1, NONE},
    {"iallgather", fill_same, start_iallgather, check_gathered, 1, NONE},
    {"ialltoall", fill_each, start_ialltoall, check_each, 1, NONE},
};

static void compute_for(int64_t ns) {
    int64_t end = now_ns() + ns;
    volatile uint32_t x = 1;
    while (now_ns() < end)
        for (int i = 0; i < 64; i++) x = x * 1664525u + 1013904223u;
}

static int64_t call_once(const struct operation *op, int64_t compute_ns) {
    MPI_Barrier(all);
    int64_t start = now_ns();
    op->call();
    if (compute_ns) compute_for(compute_ns);
    if (op->is_split) MPI_Wait(&request, MPI_STATUS_IGNORE);
    return now_ns() - start;
}

/* Nanoseconds of each call: of the ranks' mean, and of the slowest; on all ranks. */
static void measure(const struct operation *op, int calls, int64_t compute_ns, int64_t *mean,
                    int64_t *slowest) {
    int64_t *own = need((size_t)calls * sizeof *own);
    for (int i = 0; i < calls; i++) own[i] = call_once(op, compute_ns);
    MPI_Allreduce(own, slowest, calls, MPI_INT64_T, MPI_MAX, all);
    MPI_Allreduce(own, mean, calls, MPI_INT64_T, MPI_SUM, all);
    for (int i = 0; i < calls; i++) mean[i] /= ranks;
    free(own);
}

static double average(const int64_t *ns, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)ns[i];
    return sum / count;
}

static void share_out(enum counted counted) {
    for (int r = 0, place = 0; r < ranks; r++) {
        counts[r] = counted == SAME ? n : n / ranks + (r < n % ranks);
        places[r] = place;
        place += counts[r];
    }
}

static void cell(const struct operation *op, long len, int64_t budget_ns) {
    n = (int)(len / (long)sizeof *out);
    share_out(op->counted);
    op->fill();
    for (int i = 0; i < WARM_UP; i++) call_once(op, 0);
    op->check();
    int64_t begin = now_ns();
    for (int i = 0; i < TRIAL; i++) call_once(op, 0);
    int64_t each = (now_ns() - begin) / TRIAL + 1, fit = budget_ns / each;
    int calls = (int)(fit < CALLS_MIN ? CALLS_MIN : fit > CALLS_MAX ? CALLS_MAX : fit);
    MPI_Bcast(&calls, 1, MPI_INT, 0, all);
    int64_t *mean = need((size_t)calls * sizeof *mean), *slowest = need((size_t)calls * sizeof *slowest);
    measure(op, calls, 0, mean, slowest);
    op->check();
    double mean_ns = average(mean, calls), slowest_ns = average(slowest, calls), overlap = -1;
    qsort(mean, (size_t)calls, sizeof *mean, by_value);
    int64_t p50 = mean[(calls - 1) / 2], p99 = mean[(calls * 99 - 1) / 100];
    if (op->is_split) {
        int64_t compute_ns = (int64_t)mean_ns;
        measure(op, calls, compute_ns, mean, slowest);
        op->check();
        overlap = 1 - (average(mean, calls) - mean_ns) / mean_ns;
        overlap = overlap < 0 ? 0 : overlap > 1 ? 1 : overlap;
    }
    if (rank == 0) {
        printf("{\"operation\":\"%s\",\"len\":%ld,\"calls\":%d,\"mean_ns\":%.0f,\"slowest_ns\":%.0f,"
               "\"p50_ns\":%lld,\"p99_ns\":%lld", op->name, len, calls, mean_ns, slowest_ns,
               (long long)p50, (long long)p99);
        if (op->is_split) printf(",\"overlap\":%.3f", overlap);
        puts("}");
        fflush(stdout);
    }
    free(mean);
    free(slowest);
}

static const struct operation *operation_named(const char *name) {
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(operations[i].name, name)) return &operations[i];
    fail("no such operation");
    return NULL;
}

static void find_sides(void) {
    int dims[3] = {0, 0, 0}, round[3] = {1, 1, 1};
    MPI_Comm grid;
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(all, 3, dims, round, 0, &grid);
    for (int d = 0; d < 3; d++) MPI_Cart_shift(grid, d, 1, &sides[2 * d], &sides[2 * d + 1]);
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    keep_to_core(rank);
    if (argc != 4 || ranks < 2) fail("usage: collectives BUDGET_MS OPERATIONS LENGTHS, on two ranks or more");
    int64_t budget_ns = number(argv[1], 1, 100000) * 1000000;
    find_sides();
    counts = need((size_t)ranks * sizeof *counts);
    places = need((size_t)ranks * sizeof *places);
    for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
        const struct operation *op = operation_named(name);
        /* strtok has one place only, which the outer loop needs. */
        char *rest = argv[3];
        do {
            char *end = strchr(rest, ','), text[32] = "";
            size_t count = end ? (size_t)(end - rest) : strlen(rest);
            if (count >= sizeof text) fail("bad length");
            memcpy(text, rest, count);
            long len = number(text, (long)sizeof *out, 1 << 24);
            size_t blocks = (size_t)(ranks > SIDES ? ranks : SIDES), whole = blocks * (size_t)len;
            out = need(whole);
            in = need(whole);
            memset(out, 0, whole);
            memset(in, 0, whole);
            cell(op, len, budget_ns);
            free(out);
            free(in);
            rest = end ? end + 1 : NULL;
            /* A barrier has no length. */
        } while (rest && op->call != call_barrier);
    }
    MPI_Finalize();
    return 0;
}
