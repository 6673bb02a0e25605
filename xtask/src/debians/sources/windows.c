/* Puts into the next rank's window, gets from the one before, and checks both. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1000 };

int main(int argc, char **argv) {
    int rank, ranks, wrong = 0;
    int *mine, sent[COUNT], got[COUNT];
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Win_allocate(COUNT * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < COUNT; i++) {
        sent[i] = COUNT * rank + i;
        mine[i] = -1;
    }
    MPI_Win_fence(0, window);
    MPI_Put(sent, COUNT, MPI_INT, next, 0, COUNT, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) wrong += mine[i] != COUNT * before + i;
    MPI_Win_lock(MPI_LOCK_SHARED, before, 0, window);
    MPI_Get(got, COUNT, MPI_INT, before, 0, COUNT, MPI_INT, window);
    MPI_Win_unlock(before, window);
    int before_that = (before + ranks - 1) % ranks;
    for (int i = 0; i < COUNT; i++) wrong += got[i] != COUNT * before_that + i;
    MPI_Win_free(&window);
    if (wrong) printf("rank %d of %d: %d numbers are wrong\n", rank, ranks, wrong);
    else printf("rank %d of %d: all numbers are right\n", rank, ranks);
    MPI_Finalize();
    return wrong != 0;
}
