/* Any source, any tag: every message arrives once, and those of one sender in order. */
#include "check.h"

#define COUNT 500

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (rank == 0) {
        int *next = calloc((size_t)size, sizeof *next);
        for (int n = 0; n < COUNT * (size - 1); n++) {
            int value[2];
            MPI_Status status;
            MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            int from = status.MPI_SOURCE;
            CHECK(from > 0 && from < size, "source %d", from);
            CHECK(value[0] == from, "says %d, came from %d", value[0], from);
            CHECK(value[1] == next[from], "from %d: %d instead of %d", from, value[1], next[from]);
            CHECK(status.MPI_TAG == value[1] % 7, "tag %d of %d", status.MPI_TAG, value[1]);
            next[from]++;
        }
        free(next);
    } else {
        for (int i = 0; i < COUNT; i++) {
            int value[2] = {rank, i};
            MPI_Send(value, 2, MPI_INT, 0, i % 7, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* A tag picked out of the middle, from anyone; then a source picked out, with any tag. */
    if (rank == 0) {
        for (int tag = 9; tag >= 0; tag--)
            for (int i = 1; i < size; i++) {
                int value;
                MPI_Status status;
                MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
                CHECK(value == status.MPI_SOURCE * 100 + tag, "%d", value);
            }
        for (int from = size - 1; from > 0; from--)
            for (int i = 0; i < 10; i++) {
                int value;
                MPI_Status status;
                MPI_Recv(&value, 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
                CHECK(value == from * 100 + i && status.MPI_TAG == 50 + i, "%d", value);
            }
    } else {
        for (int i = 0; i < 10; i++) {
            int value = rank * 100 + i;
            MPI_Send(&value, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
        }
        for (int i = 0; i < 10; i++) {
            int value = rank * 100 + i;
            MPI_Send(&value, 1, MPI_INT, 0, 50 + i, MPI_COMM_WORLD);
        }
    }
    return finish();
}
