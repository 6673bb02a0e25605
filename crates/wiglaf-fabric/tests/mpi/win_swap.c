/* Compare-and-swap. A program of its own: Open MPI 4.1.4's osc/rdma crashes in it where all ranks are
 * on one node (its issue 9146), between nodes it does not. */
#include "check.h"

/* A lock made of compare-and-swap guards an unprotected read-modify-write. */
static void spinlock(MPI_Win window, long *shared)
{
    long free_ = 0, mine = rank + 1, was, value;
    shared[0] = shared[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int n = 0; n < 20; n++) {
        do {
            MPI_Compare_and_swap(&mine, &free_, &was, MPI_LONG, 0, 0, window);
            MPI_Win_flush(0, window);
        } while (was != 0);
        MPI_Fetch_and_op(NULL, &value, MPI_LONG, 0, 1, MPI_NO_OP, window);
        MPI_Win_flush(0, window);
        value++;
        MPI_Accumulate(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_REPLACE, window);
        MPI_Win_flush(0, window);
        MPI_Compare_and_swap(&free_, &mine, &was, MPI_LONG, 0, 0, window);
        MPI_Win_flush(0, window);
        CHECK(was == mine, "the lock was held by %ld", was);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        CHECK(shared[1] == 20L * size, "%ld", shared[1]);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    long *shared;
    MPI_Win window;
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    spinlock(window, shared);
    MPI_Win_free(&window);
    return finish();
}
