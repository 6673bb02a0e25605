/* Windows whose memory the ranks of a node share: each reads what its neighbour wrote by a plain load. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm node;
    int mine, all;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &mine);
    MPI_Comm_size(node, &all);
    long *own, *theirs;
    MPI_Aint bytes;
    int unit;
    MPI_Win window;
    MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, node, &own, &window);
    for (int round = 0; round < 20; round++) {
        MPI_Win_fence(0, window);
        *own = mine * 1000 + round;
        MPI_Win_fence(0, window);
        for (int other = 0; other < all; other++) {
            MPI_Win_shared_query(window, other, &bytes, &unit, &theirs);
            CHECK(*theirs == other * 1000 + round, "%d wrote %ld", other, *theirs);
        }
    }
    MPI_Win_fence(0, window);
    *own = 0;
    MPI_Win_fence(0, window);
    /* A lock that waits for one who is busy elsewhere. */
    for (int n = 0; n < 50; n++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Win_shared_query(window, 0, &bytes, &unit, &theirs);
        ++*theirs;
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(node);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &theirs);
    CHECK(*theirs == 50L * all, "%ld", *theirs);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    return finish();
}
