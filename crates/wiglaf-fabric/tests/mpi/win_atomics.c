/* Accumulate and its relatives: concurrent, on several types, with results that only come out right
 * if no update is lost or done twice. */
#include "check.h"

#define ROUNDS 200
#define ITEMS 3000

static void counters(MPI_Win window, long *shared)
{
    long one = 1, old, sum = 0, last = -1;
    shared[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int n = 0; n < ROUNDS; n++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(old > last && old < (long)ROUNDS * size, "ticket %ld after %ld", old, last);
        last = old;
        sum += old;
    }
    MPI_Win_unlock_all(window);
    long all = 0, tickets = (long)ROUNDS * size;
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == tickets * (tickets - 1) / 2, "every ticket once: %ld", all);
}

/* Long accumulates from everyone to everyone. */
#define ACCUMULATE(NAME, TYPE, MPI_TYPE)                                                        \
    static void NAME(void)                                                                      \
    {                                                                                           \
        TYPE *shared = room(sizeof(TYPE) * ITEMS), *local = room(sizeof(TYPE) * ITEMS);         \
        TYPE *old = room(sizeof(TYPE) * ITEMS);                                                 \
        for (int i = 0; i < ITEMS; i++) shared[i] = (TYPE)(i % 50), local[i] = (TYPE)(rank + 1); \
        MPI_Win window;                                                                         \
        MPI_Win_create(shared, sizeof(TYPE) * ITEMS, sizeof(TYPE), MPI_INFO_NULL,               \
                       MPI_COMM_WORLD, &window);                                                \
        MPI_Win_fence(0, window);                                                               \
        for (int target = 0; target < size; target++)                                           \
            MPI_Accumulate(local, ITEMS, MPI_TYPE, target, 0, ITEMS, MPI_TYPE, MPI_SUM, window); \
        MPI_Win_fence(0, window);                                                               \
        int added = size * (size + 1) / 2;                                                      \
        for (int i = 0; i < ITEMS; i++)                                                         \
            CHECK(shared[i] == (TYPE)(i % 50 + added), #NAME ", sum of item %d", i);            \
        MPI_Win_fence(0, window);                                                               \
        MPI_Get_accumulate(local, ITEMS, MPI_TYPE, old, ITEMS, MPI_TYPE, (rank + 1) % size, 0,  \
                           ITEMS, MPI_TYPE, MPI_MAX, window);                                   \
        MPI_Win_fence(0, window);                                                               \
        for (int i = 0; i < ITEMS; i++)                                                         \
            CHECK(old[i] == (TYPE)(i % 50 + added), #NAME ", fetched item %d", i);              \
        MPI_Win_free(&window);                                                                  \
        free(shared);                                                                           \
        free(local);                                                                            \
        free(old);                                                                              \
    }

ACCUMULATE(ints, int, MPI_INT)
ACCUMULATE(shorts, short, MPI_SHORT)
ACCUMULATE(longs, long, MPI_LONG)
ACCUMULATE(doubles, double, MPI_DOUBLE)
ACCUMULATE(floats, float, MPI_FLOAT)

/* Bits and logic on one item that everyone changes. */
static void bits(MPI_Win window, long *shared)
{
    long bit = 1L << rank, all = (1L << size) - 1, one = 1;
    shared[0] = 0, shared[1] = -1, shared[2] = 0;
    MPI_Win_fence(0, window);
    MPI_Accumulate(&bit, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_BOR, window);
    MPI_Accumulate(&all, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_BAND, window);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_LOR, window);
    MPI_Win_fence(0, window);
    if (rank == 0) {
        CHECK(shared[0] == all, "or: %lx", shared[0]);
        CHECK(shared[1] == all, "and: %lx", shared[1]);
        CHECK(shared[2] == 1, "logical or: %ld", shared[2]);
    }
    MPI_Win_fence(0, window);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    long *shared;
    MPI_Win window;
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    counters(window, shared);
    bits(window, shared);
    MPI_Win_free(&window);
    ints();
    shorts();
    longs();
    doubles();
    floats();
    return finish();
}
