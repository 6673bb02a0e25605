/* Every collective operation, for several lengths and roots, against results computed here. */
#include "check.h"

static int count, *in, *out, *counts, *places;

static int value(int of, int i) { return of * 7919 + i * 31 + 5; }

/* The sum over the ranks below `end` of their item `i`. */
static int sum(int end, int i)
{
    int total = 0;
    for (int r = 0; r < end; r++) total += value(r, i);
    return total;
}

static void rooted(int root)
{
    for (int i = 0; i < count; i++) in[i] = rank == root ? value(root, i) : -1;
    MPI_Bcast(in, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(in[i] == value(root, i), "Bcast of %d", count);

    for (int i = 0; i < count; i++) in[i] = value(rank, i);
    MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
    for (int i = 0; rank == root && i < count; i++)
        CHECK(out[i] == sum(size, i), "Reduce of %d", count);

    MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int r = 0; rank == root && r < size; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, i), "Gather of %d", count);

    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) out[r * count + i] = value(r + root, i);
    MPI_Scatter(out, count, MPI_INT, in, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(in[i] == value(rank + root, i), "Scatter of %d", count);

    /* Rank r has r items more than rank 0. */
    int total = 0;
    for (int r = 0; r < size; r++) counts[r] = count + r, places[r] = total, total += count + r;
    for (int i = 0; i < count + rank; i++) in[i] = value(rank, i);
    MPI_Gatherv(in, count + rank, MPI_INT, out, counts, places, MPI_INT, root, MPI_COMM_WORLD);
    for (int r = 0; rank == root && r < size; r++)
        for (int i = 0; i < counts[r]; i++)
            CHECK(out[places[r] + i] == value(r, i), "Gatherv of %d", count);
    MPI_Scatterv(out, counts, places, MPI_INT, in, count + rank, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < count + rank; i++) CHECK(in[i] == value(rank, i), "Scatterv of %d", count);
}

static void everywhere(void)
{
    for (int i = 0; i < count; i++) in[i] = value(rank, i);
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(out[i] == sum(size, i), "Allreduce of %d", count);
    MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(out[i] == value(size - 1, i), "max of %d", count);

    MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, i), "Allgather of %d", count);

    int total = 0;
    for (int r = 0; r < size; r++) counts[r] = count + r, places[r] = total, total += count + r;
    for (int i = 0; i < count + rank; i++) in[i] = value(rank, i);
    MPI_Allgatherv(in, count + rank, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < counts[r]; i++)
            CHECK(out[places[r] + i] == value(r, i), "Allgatherv of %d", count);

    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) in[r * count + i] = value(rank * 50 + r, i);
    MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r * 50 + rank, i), "Alltoall of %d", count);

    for (int r = 0; r < size; r++) counts[r] = count, places[r] = r * count;
    memset(out, 0, sizeof(int) * (size_t)(size * count));
    MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r * 50 + rank, i), "Alltoallv of %d", count);
}

static void prefixes(void)
{
    for (int i = 0; i < size * count; i++) in[i] = value(rank, i);
    MPI_Scan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) CHECK(out[i] == sum(rank + 1, i), "Scan of %d", count);
    MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; rank > 0 && i < count; i++) CHECK(out[i] == sum(rank, i), "Exscan of %d", count);
    MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum(size, rank * count + i), "Reduce_scatter_block of %d", count);
    for (int r = 0; r < size; r++) counts[r] = count;
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(out[i] == sum(size, rank * count + i), "Reduce_scatter of %d", count);
}

/* Several at once, which progress side by side. */
static void nonblocking(void)
{
    MPI_Request requests[4];
    int *sums = room(sizeof(int) * (size_t)(count + 1)), *word = room(sizeof(int) * (size_t)(count + 1));
    for (int i = 0; i < count; i++) in[i] = value(rank, i), word[i] = rank ? -1 : value(0, i);
    MPI_Iallreduce(in, sums, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(word, count, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, &requests[2]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        CHECK(sums[i] == sum(size, i), "Iallreduce of %d", count);
        CHECK(word[i] == value(0, i), "Ibcast of %d", count);
    }
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++)
            CHECK(out[r * count + i] == value(r, i), "Iallgather of %d", count);
    free(sums);
    free(word);
}

int main(int argc, char **argv)
{
    static const int lens[] = {0, 1, 3, 300, 1000, 20000, 200000};
    begin(&argc, &argv);
    counts = room(sizeof(int) * (size_t)size);
    places = room(sizeof(int) * (size_t)size);
    for (int n = 0; n < 7; n++) {
        count = lens[n];
        in = room(sizeof(int) * (size_t)(size * (count + size)));
        out = room(sizeof(int) * (size_t)(size * (count + size)));
        for (int root = 0; root < size; root++) rooted(root);
        everywhere();
        prefixes();
        nonblocking();
        free(in);
        free(out);
    }
    for (int n = 0; n < 1000; n++) MPI_Barrier(MPI_COMM_WORLD);
    return finish();
}
