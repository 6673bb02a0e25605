/* Functions of MPI 4.0 where the MPI has them, as mpi4py looks for them; else those of before. */
#include <mpi.h>

extern int MPI_Allreduce_c(const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm) __attribute__((weak));
extern int MPI_Alltoallv_c(const void *, const MPI_Count[], const MPI_Aint[], MPI_Datatype, void *, const MPI_Count[],
                           const MPI_Aint[], MPI_Datatype, MPI_Comm) __attribute__((weak));
extern int MPI_Allreduce_init(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *)
    __attribute__((weak));

int main(int argc, char **argv) {
    double in[100] = {0}, out[100];
    int counts[3] = {1, 2, 3}, to[3] = {1, 1, 1}, offsets[3] = {0, 10, 20}, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++) to[i] = rank + 1;
    if (MPI_Allreduce_c && MPI_Alltoallv_c) {
        MPI_Count large[3], large_to[3];
        MPI_Aint far[3];
        for (int i = 0; i < 3; i++) {
            large[i] = counts[i];
            large_to[i] = to[i];
            far[i] = offsets[i];
        }
        for (int i = 0; i < 3; i++) MPI_Allreduce_c(in, out, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Alltoallv_c(in, large_to, far, MPI_DOUBLE, out, large, far, MPI_DOUBLE, MPI_COMM_WORLD);
    } else {
        for (int i = 0; i < 3; i++) MPI_Allreduce(in, out, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Alltoallv(in, to, offsets, MPI_DOUBLE, out, counts, offsets, MPI_DOUBLE, MPI_COMM_WORLD);
    }
    /* Some have this one and not those before. */
    if (MPI_Allreduce_init && MPI_Allreduce_c) {
        MPI_Request request;
        MPI_Allreduce_init(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        for (int i = 0; i < 2; i++) {
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
    }
    MPI_Finalize();
    return 0;
}
