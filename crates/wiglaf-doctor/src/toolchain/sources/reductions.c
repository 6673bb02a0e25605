/* Logical reductions by the name that Fortran calls, with TRUTH for .TRUE. */
#include <mpi.h>
#include <stdio.h>
void mpi_allreduce_(void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, wrong = 0, checks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Fint count = 4, world = MPI_Comm_c2f(MPI_COMM_WORLD), error;
    MPI_Fint logical = MPI_Type_c2f(MPI_LOGICAL);
    MPI_Op ops[3] = {MPI_LAND, MPI_LOR, MPI_LXOR};
    const char *names[3] = {"LAND", "LOR", "LXOR"};
    /* The truths of rank 0 and of all others; 2 ranks are meant. */
    int inputs[2][4] = {{1, 1, 0, 0}, {1, 0, 1, 0}}, wanted[3][4] = {{1, 0, 0, 0}, {1, 1, 1, 0}, {0, 1, 1, 0}};
    for (int o = 0; o < 3; o++) {
        MPI_Fint sent[4], got[4], op = MPI_Op_c2f(ops[o]);
        for (int i = 0; i < 4; i++) sent[i] = inputs[rank > 0][i] * (TRUTH);
        mpi_allreduce_(sent, got, &count, &logical, &op, &world, &error);
        for (int i = 0; i < 4; i++) {
            checks++;
            if (got[i] == wanted[o][i] * (TRUTH)) continue;
            wrong++;
            printf("wrong: allreduce %s on rank %d: got and wanted %d %d\n", names[o], rank, got[i], wanted[o][i] * (TRUTH));
        }
    }
    int mine[2] = {wrong, checks}, all[2];
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%d of %d wrong on %d ranks\n", all[0], all[1], ranks);
    return MPI_Finalize();
}
