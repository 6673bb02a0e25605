/* One-sided communication in all kinds of epochs: fence, post-start-complete-wait, lock, lock_all;
 * on windows that MPI allocates and on windows over memory of ours. */
#include "check.h"

#define BYTES (300 * 1024)

static const size_t lens[] = {1, 8, 1000, 1500, 4096, 32 * 1024, 33 * 1024, BYTES};
#define LENS (sizeof lens / sizeof *lens)

static int next, before;

static uint32_t seed(int from, size_t n, int round)
{
    return (uint32_t)(from * 1000 + (int)n * 10 + round);
}

static void fences(MPI_Win window, unsigned char *shared, unsigned char *local)
{
    for (size_t n = 0; n < LENS; n++) {
        fill(local, lens[n], seed(rank, n, 1));
        memset(shared, 0, BYTES);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
        MPI_Put(local, (int)lens[n], MPI_BYTE, next, (MPI_Aint)(BYTES - lens[n]), (int)lens[n],
                MPI_BYTE, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
        long at = differs(shared + BYTES - lens[n], lens[n], seed(before, n, 1));
        CHECK(at < 0, "put of %zu under a fence, byte %ld", lens[n], at);
        for (size_t i = 0; i < BYTES - lens[n]; i++)
            CHECK(shared[i] == 0, "put of %zu hit byte %zu", lens[n], i);
    }
}

static void pscw(MPI_Win window, unsigned char *shared, unsigned char *local)
{
    MPI_Group all, origin, target;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &before, &origin);
    MPI_Group_incl(all, 1, &next, &target);
    for (size_t n = 0; n < LENS; n++) {
        fill(shared, lens[n], seed(rank, n, 2));
        memset(local, 0, BYTES);
        MPI_Win_post(origin, 0, window);
        MPI_Win_start(target, 0, window);
        MPI_Get(local, (int)lens[n], MPI_BYTE, next, 0, (int)lens[n], MPI_BYTE, window);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        long at = differs(local, lens[n], seed(next, n, 2));
        CHECK(at < 0, "get of %zu between start and complete, byte %ld", lens[n], at);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&origin);
    MPI_Group_free(&target);
}

/* Everyone writes its own slice of everyone, then reads it back. */
static void locks(MPI_Win window, unsigned char *shared, unsigned char *local)
{
    size_t slice = BYTES / (size_t)size;
    unsigned char *back = room(slice);
    fill(local, slice, seed(rank, 0, 3));
    memset(shared, 0, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int target = 0; target < size; target++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        MPI_Put(local, (int)slice, MPI_BYTE, target, (MPI_Aint)(slice * (size_t)rank), (int)slice,
                MPI_BYTE, window);
        MPI_Win_unlock(target, window);
    }
    MPI_Win_lock_all(0, window);
    for (int target = 0; target < size; target++) {
        memset(back, 0, slice);
        MPI_Get(back, (int)slice, MPI_BYTE, target, (MPI_Aint)(slice * (size_t)rank), (int)slice,
                MPI_BYTE, window);
        MPI_Win_flush(target, window);
        long at = differs(back, slice, seed(rank, 0, 3));
        CHECK(at < 0, "read back from %d, byte %ld", target, at);
    }
    /* Many small ones under way at once, in place of what was there. */
    for (size_t i = 0; i < 500; i++) local[i] = (unsigned char)(i ^ (size_t)rank);
    for (int target = 0; target < size; target++)
        for (size_t i = 0; i < 500; i++)
            MPI_Put(local + i, 1, MPI_BYTE, target, (MPI_Aint)(slice * (size_t)rank + i), 1,
                    MPI_BYTE, window);
    MPI_Win_flush_all(window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int from = 0; from < size; from++)
        for (size_t i = 0; i < 500; i++)
            CHECK(shared[slice * (size_t)from + i] == (unsigned char)(i ^ (size_t)from),
                  "byte %zu of %d", i, from);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    free(back);
}

/* Strided data: every other item. */
static void strides(MPI_Win window, unsigned char *shared, unsigned char *local)
{
    MPI_Datatype every_other;
    MPI_Type_vector(100, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    int *items = (int *)(void *)local, *there = (int *)(void *)shared;
    for (int i = 0; i < 200; i++) items[i] = rank * 1000 + i, there[i] = -1;
    MPI_Win_fence(0, window);
    MPI_Put(items, 1, every_other, next, 0, 1, every_other, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 199; i++)
        CHECK(there[i] == (i % 2 ? -1 : before * 1000 + i), "item %d is %d", i, there[i]);
    MPI_Type_free(&every_other);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *local = room(BYTES), *ours = room(BYTES), *theirs;
    for (int allocated = 0; allocated < 2; allocated++) {
        MPI_Win window;
        if (allocated) {
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &theirs, &window);
        } else {
            MPI_Win_create(ours, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        }
        unsigned char *shared = allocated ? theirs : ours;
        fences(window, shared, local);
        pscw(window, shared, local);
        locks(window, shared, local);
        strides(window, shared, local);
        MPI_Win_free(&window);
    }
    free(ours);
    free(local);
    return finish();
}
