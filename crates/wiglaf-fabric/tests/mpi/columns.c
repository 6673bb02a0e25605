/* Collectives that take columns of a matrix at one end and contiguous numbers at the other: what is strided
 * there must arrive as a row here, whoever is the root. */
#include "check.h"

enum { ROWS = 12, STRIDE = 10 };

static double matrix[ROWS * STRIDE], row[ROWS * 64], all[ROWS * 64];

static void refill(void)
{
    for (int i = 0; i < ROWS * STRIDE; i++) matrix[i] = -2;
    for (int i = 0; i < ROWS; i++) matrix[i * STRIDE] = rank * ROWS + i;
    for (int i = 0; i < ROWS * 64; i++) row[i] = i, all[i] = -1;
}

/* `all` has every rank's column, one after the other. */
static void check_all(const char *what, int root)
{
    for (int i = 0; i < ROWS * size; i++)
        CHECK(all[i] == i, "%s to %d: element %d is %g", what, root, i, all[i]);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(size <= 64, "%d ranks", size);
    MPI_Datatype column;
    MPI_Type_vector(ROWS, 1, STRIDE, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    int counts[64], places[64];
    for (int i = 0; i < size; i++) counts[i] = ROWS, places[i] = i * ROWS;
    for (int root = 0; root < size; root++) {
        refill();
        MPI_Gather(matrix, 1, column, all, ROWS, MPI_DOUBLE, root, MPI_COMM_WORLD);
        if (rank == root) check_all("gather", root);
        refill();
        MPI_Gatherv(matrix, 1, column, all, counts, places, MPI_DOUBLE, root, MPI_COMM_WORLD);
        if (rank == root) check_all("gatherv", root);
        refill();
        MPI_Scatter(row, ROWS, MPI_DOUBLE, matrix, 1, column, root, MPI_COMM_WORLD);
        for (int i = 0; i < ROWS; i++)
            CHECK(matrix[i * STRIDE] == rank * ROWS + i && matrix[i * STRIDE + 1] == -2,
                  "scatter from %d: row %d is %g", root, i, matrix[i * STRIDE]);
        refill();
        MPI_Bcast(matrix, 1, column, root, MPI_COMM_WORLD);
        for (int i = 0; i < ROWS; i++)
            CHECK(matrix[i * STRIDE] == root * ROWS + i, "bcast from %d: row %d is %g", root, i, matrix[i * STRIDE]);
    }
    refill();
    MPI_Allgather(matrix, 1, column, all, ROWS, MPI_DOUBLE, MPI_COMM_WORLD);
    check_all("allgather", -1);
    refill();
    MPI_Allgatherv(matrix, 1, column, all, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
    check_all("allgatherv", -1);
    MPI_Type_free(&column);
    /* The other way about: what is contiguous at each rank becomes a column at the receivers. */
    MPI_Datatype strided, place;
    MPI_Type_vector(ROWS, 1, size, MPI_DOUBLE, &strided);
    MPI_Type_create_resized(strided, 0, sizeof(double), &place);
    MPI_Type_commit(&place);
    double mine[ROWS];
    for (int i = 0; i < ROWS; i++) mine[i] = i * size + rank;
    for (int root = 0; root < size; root++) {
        refill();
        MPI_Gather(mine, ROWS, MPI_DOUBLE, all, 1, place, root, MPI_COMM_WORLD);
        if (rank == root) check_all("gather into columns", root);
    }
    refill();
    MPI_Allgather(mine, ROWS, MPI_DOUBLE, all, 1, place, MPI_COMM_WORLD);
    check_all("allgather into columns", -1);
    MPI_Type_free(&place);
    MPI_Type_free(&strided);
    return finish();
}
