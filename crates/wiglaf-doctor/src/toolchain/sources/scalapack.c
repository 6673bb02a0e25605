/* Solves a small system with PDGESV; the ranks are a row of the process grid. */
#include <math.h>
#include <stdio.h>
enum { N = 16, BLOCK = 4 };
void blacs_pinfo_(int *, int *);
void blacs_get_(int *, int *, int *);
void blacs_gridinit_(int *, char *, int *, int *, long);
void blacs_gridinfo_(int *, int *, int *, int *, int *);
void blacs_gridexit_(int *);
void blacs_exit_(int *);
int numroc_(int *, int *, int *, int *, int *);
void descinit_(int *, int *, int *, int *, int *, int *, int *, int *, int *, int *);
void pdgesv_(int *, int *, double *, int *, int *, int *, int *, double *, int *, int *, int *, int *);
/* A matrix that is far from singular. */
static double entry(int i, int j) { return 1.0 / (i + j + 2) + (i == j ? N : 0); }
int main(void) {
    int rank, ranks, context, rows, columns, row, column, info, nil = 0, one = 1, all = -1, n = N, block = BLOCK;
    int about_a[9], about_b[9], pivots[N + BLOCK];
    static double a[N * N], b[N];
    blacs_pinfo_(&rank, &ranks);
    blacs_get_(&all, &nil, &context);
    blacs_gridinit_(&context, "Row", &one, &ranks, 3);
    blacs_gridinfo_(&context, &rows, &columns, &row, &column);
    int here = numroc_(&n, &block, &column, &nil, &columns);
    descinit_(about_a, &n, &n, &block, &block, &nil, &nil, &context, &n, &info);
    descinit_(about_b, &n, &one, &block, &block, &nil, &nil, &context, &n, &info);
    for (int local = 0; local < here; local++) {
        int j = (local / BLOCK * columns + column) * BLOCK + local % BLOCK;
        for (int i = 0; i < N; i++) a[local * N + i] = entry(i, j);
    }
    for (int i = 0; i < N && column == 0; i++)
        for (int j = 0; j < N; j++) b[i] += entry(i, j) * (j + 1);
    pdgesv_(&n, &one, a, &one, &one, about_a, pivots, b, &one, &one, about_b, &info);
    double error = 0;
    for (int i = 0; i < N; i++) error = fmax(error, fabs(b[i] - (i + 1)));
    if (column == 0 && info == 0 && error <= 1e-9) printf("ok on %d ranks\n", ranks);
    else if (column == 0) printf("wrong: %d %g\n", info, error);
    blacs_gridexit_(&context);
    blacs_exit_(&nil);
}
