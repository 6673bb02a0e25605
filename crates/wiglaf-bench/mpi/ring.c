/* Ring: in every step each rank passes a token to its right and takes one from its left.
 *
 *   ring BUDGET_MS LEN [1]
 *
 * One JSON line from rank 0: the time of every step in nanoseconds, and of all of them together.
 * With a third argument of 1 a step is MPI_Alltoall instead, with LEN bytes for each rank.
 * A step ends on a rank when its left neighbour has been scheduled and has sent, so ranks that
 * share cores show at once how well the waiting side gives way. */
#include "common.h"
#include <string.h>

enum { BLOCK = 200, STEPS_MAX = 200 * BLOCK, TAG = 1 };

static int rank, ranks, len, to_all;
static unsigned char *out, *in;

static void exchange_with_all(int64_t number_of_step) {
    for (int other = 0; other < ranks; other++) {
        int64_t token = (number_of_step * ranks + rank) * ranks + other;
        memcpy(out + (size_t)other * (size_t)len, &token, sizeof token);
    }
    MPI_Alltoall(out, len, MPI_BYTE, in, len, MPI_BYTE, MPI_COMM_WORLD);
    for (int other = 0; other < ranks; other++) {
        int64_t got;
        memcpy(&got, in + (size_t)other * (size_t)len, sizeof got);
        if (got != (number_of_step * ranks + other) * ranks + rank) fail("a wrong token for all");
    }
}

static void step(int64_t number_of_step) {
    if (to_all) {
        exchange_with_all(number_of_step);
        return;
    }
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    int64_t token = number_of_step * ranks + rank, got;
    memcpy(out, &token, sizeof token);
    MPI_Sendrecv(out, len, MPI_BYTE, right, TAG, in, len, MPI_BYTE, left, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    memcpy(&got, in, sizeof got);
    if (got != number_of_step * ranks + left) fail("the ring delivered a wrong token");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    keep_to_core(rank);
    if (argc < 3 || argc > 4 || ranks < 2)
        fail("usage: ring BUDGET_MS LEN [1], on two ranks or more");
    int64_t budget_ns = number(argv[1], 1, 100000) * 1000000;
    len = (int)number(argv[2], sizeof(int64_t), 1 << 24);
    to_all = argc == 4 && number(argv[3], 0, 1);
    size_t whole = (size_t)len * (to_all ? (size_t)ranks : 1);
    out = need(whole);
    in = need(whole);
    int64_t *step_ns = need(STEPS_MAX * sizeof *step_ns);
    memset(out, 0, whole);
    for (int i = 0; i < BLOCK; i++) step(i);

    /* Blocks, because a path may run well at first and collapse later: rank 0 looks at the clock
     * after each and decides for all whether there is time for another. */
    int steps = 0, more = 1;
    int64_t loop_ns = 0;
    while (more) {
        MPI_Barrier(MPI_COMM_WORLD);
        int64_t start = now_ns(), before = start;
        for (int i = 0; i < BLOCK; i++) {
            step(steps);
            int64_t after = now_ns();
            step_ns[steps++] = after - before;
            before = after;
        }
        loop_ns += before - start;
        more = loop_ns < budget_ns && steps < STEPS_MAX;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf("{\"len\":%d,\"ranks\":%d,\"loop_ns\":%lld,\"step_ns\":", len, ranks,
               (long long)loop_ns);
        print_histogram(step_ns, steps);
        puts("}");
    }
    MPI_Finalize();
    return 0;
}
