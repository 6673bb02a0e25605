/* One-sided communication: put, get and accumulate, under fences and under locks. */
#include "check.h"

#define ITEMS 20000

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int *shared = room(sizeof(int) * ITEMS), *local = room(sizeof(int) * ITEMS);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Win window;
    MPI_Win_create(shared, sizeof(int) * ITEMS, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    static const int lens[] = {1, 100, ITEMS};
    for (int n = 0; n < 3; n++) {
        int len = lens[n];
        for (int i = 0; i < ITEMS; i++) shared[i] = -1, local[i] = rank * 100000 + i;
        MPI_Win_fence(0, window);
        MPI_Put(local, len, MPI_INT, next, ITEMS - len, len, MPI_INT, window);
        MPI_Win_fence(0, window);
        for (int i = 0; i < ITEMS; i++) {
            int wanted = i < ITEMS - len ? -1 : before * 100000 + i - (ITEMS - len);
            CHECK(shared[i] == wanted, "put %d, item %d is %d", len, i, shared[i]);
        }
        for (int i = 0; i < ITEMS; i++) shared[i] = rank * 7 + i, local[i] = -1;
        MPI_Win_fence(0, window);
        MPI_Get(local, len, MPI_INT, next, 0, len, MPI_INT, window);
        MPI_Win_fence(0, window);
        for (int i = 0; i < len; i++) CHECK(local[i] == next * 7 + i, "get %d, item %d", len, i);
        for (int i = 0; i < ITEMS; i++) shared[i] = i, local[i] = rank + 1;
        MPI_Win_fence(0, window);
        MPI_Accumulate(local, len, MPI_INT, 0, 0, len, MPI_INT, MPI_SUM, window);
        MPI_Win_fence(0, window);
        for (int i = 0; rank == 0 && i < len; i++)
            CHECK(shared[i] == i + size * (size + 1) / 2, "accumulate %d, item %d", len, i);
    }
    /* A counter on rank 0 that everyone raises under an exclusive lock. */
    shared[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int n = 0; n < 50; n++) {
        int one = 1, old = -1;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        CHECK(old >= n && old < 50 * size, "the counter was %d", old);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        CHECK(shared[0] == 50 * size, "%d", shared[0]);
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
    free(shared);
    free(local);
    return finish();
}
