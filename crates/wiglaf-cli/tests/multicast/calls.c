/* Each collective that a group of hosts can do, many times, so that the first calls are the MPI's and the others the
 * group's: other roots, types with gaps, types that differ between ranks, operations that do not commute,
 * MPI_IN_PLACE, communicators made and freed, and the MPI's own messages meanwhile. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LARGE_COUNTS
/* The functions of MPI 4.0, which alone can earn a communicator its group here. */
#define MPI_Barrier(comm) ((void)(comm), MPI_SUCCESS)
#define MPI_Bcast MPI_Bcast_c
#define MPI_Allreduce MPI_Allreduce_c
#define MPI_Allgather MPI_Allgather_c
#endif

static int rank, ranks;

static void wrong(const char *what, int round) {
    fprintf(stderr, "rank %d: wrong %s in round %d\n", rank, what, round);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static unsigned char octet(int round, int i) { return (unsigned char)(i * 31 + round * 7 + i / 251); }

static void broadcast(MPI_Comm comm, int round, int len) {
    int own, size;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    int root = round % size;
    unsigned char *bytes = malloc((size_t)len + 1);
    for (int i = 0; i < len; i++) bytes[i] = own == root ? octet(round, i) : 0;
    MPI_Bcast(bytes, len, MPI_BYTE, root, comm);
    for (int i = 0; i < len; i++) if (bytes[i] != octet(round, i)) wrong("broadcast", round);
    free(bytes);
}

/* The root has every third int of a matrix, the others have them in a row. */
static void broadcast_of_columns(int round) {
    int matrix[30], row[10], root = round % ranks;
    MPI_Datatype column;
    MPI_Type_vector(10, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 30; i++) matrix[i] = round + i;
    memset(row, 0, sizeof row);
    if (rank == root) MPI_Bcast(matrix, 1, column, root, MPI_COMM_WORLD);
    else if (rank % 2) MPI_Bcast(row, 10, MPI_INT, root, MPI_COMM_WORLD);
    else {
        memset(matrix, 0, sizeof matrix);
        MPI_Bcast(matrix, 1, column, root, MPI_COMM_WORLD);
        for (int i = 0; i < 10; i++) row[i] = matrix[3 * i];
        if (matrix[1] || matrix[29]) wrong("gap", round);
    }
    for (int i = 0; i < 10 && rank != root; i++)
        if (row[i] != round + 3 * i) wrong("column", round);
    MPI_Type_free(&column);
}

static void sums(MPI_Comm comm, int round) {
    int own, size;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    double mine[16], all[16];
    for (int i = 0; i < 16; i++) mine[i] = own + i + round;
    MPI_Allreduce(mine, all, 16, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < 16; i++)
        if (all[i] != size * (i + round) + size * (size - 1) / 2.0) wrong("sum", round);
    MPI_Allreduce(MPI_IN_PLACE, mine, 16, MPI_DOUBLE, MPI_MAX, comm);
    for (int i = 0; i < 16; i++) if (mine[i] != size - 1 + i + round) wrong("maximum in place", round);
    struct { double value; int where; } one = {(own + round) % size, own}, best;
    MPI_Allreduce(&one, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    if (best.value != size - 1 || (best.where + round) % size != size - 1) wrong("place", round);
}

/* Matrices of two by two, modulo 10007: their products depend on the order. */
static void times(void *left, void *right, int *count, MPI_Datatype *type) {
    (void)type;
    int *a = left, *b = right;
    for (int m = 0; m < *count; m++, a += 4, b += 4) {
        int product[4];
        for (int i = 0; i < 4; i++)
            product[i] = (a[i / 2 * 2] * b[i % 2] + a[i / 2 * 2 + 1] * b[2 + i % 2]) % 10007;
        memcpy(b, product, sizeof product);
    }
}

static void products(MPI_Op op, MPI_Datatype matrix, int round) {
    int all[4] = {1, 0, 0, 1}, mine[4], outcome[4], one = 1;
    for (int r = 0; r < ranks; r++) {
        int next[4] = {r + 1, round + 2, 3, r + round};
        if (r == rank) memcpy(mine, next, sizeof next);
        int left[4];
        memcpy(left, all, sizeof left);
        memcpy(all, next, sizeof next);
        times(left, all, &one, NULL);
    }
    MPI_Allreduce(mine, outcome, 1, matrix, op, MPI_COMM_WORLD);
    if (memcmp(all, outcome, sizeof all)) wrong("product", round);
}

static void gathers(MPI_Comm comm, int round) {
    int own, size, all[64 * 3], mine[3];
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 3; i++) mine[i] = own * 10 + i + round;
    MPI_Allgather(mine, 3, MPI_INT, all, 12, MPI_BYTE, comm);
    for (int i = 0; i < 3 * size; i++) if (all[i] != i / 3 * 10 + i % 3 + round) wrong("gather", round);
    memset(all, 0, sizeof all);
    memcpy(all + 3 * own, mine, sizeof mine);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 3, MPI_INT, comm);
    for (int i = 0; i < 3 * size; i++) if (all[i] != i / 3 * 10 + i % 3 + round) wrong("gather in place", round);
}

/* One waits for a long message before the barrier, the other sends it before and waits behind. */
static void messages_meanwhile(int round) {
    enum { LEN = 1 << 20 };
    char *bytes = malloc(LEN);
    MPI_Request request;
    memset(bytes, rank == 0 ? 'a' + round % 20 : 0, LEN);
    if (rank == 0) MPI_Isend(bytes, LEN, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
    if (rank == 1) MPI_Recv(bytes, LEN, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1 && bytes[LEN - 1] != 'a' + round % 20) wrong("message", round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(bytes);
}

/* What an MPI refuses with a code is refused with a code. */
static void errors(void) {
    MPI_Comm comm;
    double one = 1, all;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 12; round++) MPI_Barrier(comm);
    if (MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_BAND, comm) == MPI_SUCCESS) wrong("success of MPI_BAND", 0);
    if (MPI_Bcast(&one, 1, MPI_DATATYPE_NULL, 0, comm) == MPI_SUCCESS) wrong("success without a type", 0);
    if (MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, comm) != MPI_SUCCESS || all != ranks) wrong("sum behind", 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Datatype matrix;
    MPI_Op op;
    MPI_Type_contiguous(4, MPI_INT, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(times, 0, &op);
    static const int lens[] = {1, 1000, 1408, 20000, 300000};
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 5; i++) broadcast(MPI_COMM_WORLD, round, lens[i]);
        broadcast_of_columns(round);
        sums(MPI_COMM_WORLD, round);
        products(op, matrix, round);
        gathers(MPI_COMM_WORLD, round);
        if (ranks > 1) messages_meanwhile(round);
    }
    /* Communicators that live longer than it takes to get a group, and some that do not; both orders of ranks. */
    for (int made = 0; made < 6; made++) {
        MPI_Comm comm;
        if (made % 2) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        else MPI_Comm_split(MPI_COMM_WORLD, rank == ranks - 1, -rank, &comm);
        for (int round = 0; round < (made < 4 ? 12 : 3); round++) {
            broadcast(comm, round, 5000);
            sums(comm, round);
            gathers(comm, round);
        }
        /* The root leaves before the others have heard it. */
        broadcast(comm, made, 700);
        MPI_Comm_free(&comm);
    }
    for (int i = 0; i < 300; i++) broadcast(MPI_COMM_WORLD, 0, 100);
    errors();
    MPI_Op_free(&op);
    MPI_Type_free(&matrix);
    if (rank == 0) printf("all right\n");
    MPI_Finalize();
    return 0;
}
