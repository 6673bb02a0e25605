/* Calls of MPI whose numbers and sizes are known; of a rooted call each rank gives only what it must.
 * With an argument the last rank ends without MPI_Finalize. */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size; static char buf[1 << 20], in[1 << 20]; int counts[64], displs[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0; i < 10; i++) {
        MPI_Request r[2];
        MPI_Irecv(in, 1000, MPI_INT, left, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(buf, 1000, MPI_INT, right, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 7; i++)
        MPI_Sendrecv(buf, 3, MPI_DOUBLE, right, 2, in, 3, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 5; i++) MPI_Allreduce(MPI_IN_PLACE, buf, 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) MPI_Bcast(buf, 1 << 20, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Gather(MPI_IN_PLACE, 12345, MPI_DATATYPE_NULL, in, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
    else MPI_Gather(buf, 8, MPI_BYTE, NULL, 77, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 5, MPI_DATATYPE_NULL, in, 2, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) { counts[i] = 4; displs[i] = 4 * i; }
    MPI_Alltoallv(buf, counts, displs, MPI_BYTE, in, counts, displs, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Comm dup; MPI_Comm_dup(MPI_COMM_WORLD, &dup); MPI_Comm_free(&dup);
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1 && rank == size - 1) _exit(0);
    MPI_Finalize();
    return 0;
}
