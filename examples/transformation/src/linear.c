#include "linear.h"

#include <stdlib.h>

#include "job.h"

/* Fortran's, by reference and by columns. */
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc);
void dsyev_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
            double *work, const int *lwork, int *info);
void dgesv_(const int *n, const int *nrhs, double *a, const int *lda, int *pivots, double *b,
            const int *ldb, int *info);
/* Only there when BLAS is OpenBLAS. */
void openblas_set_num_threads(int count) __attribute__((weak));

void linear_start(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}

/* By columns this is the product of the transposed in the other order. */
void multiply(int m, int n, int k, const double *a, int ta, const double *b, int tb, double *c)
{
    const double one = 1.0, zero = 0.0;
    int lda = ta ? m : k, ldb = tb ? k : n;
    dgemm_(tb ? "T" : "N", ta ? "T" : "N", &n, &m, &k, &one, b, &ldb, a, &lda, &zero, c, &n);
}

void diagonalize(int n, double *matrix, double *values)
{
    int info, room = 64 * n;
    double *work = allocate((size_t)room, sizeof *work);
    dsyev_("V", "U", &n, matrix, &n, values, work, &room, &info);
    if (info)
        fail("dsyev: %d", info);
    free(work);
}

int solve(int n, double *matrix, double *right)
{
    int one = 1, info, *pivots = allocate((size_t)n, sizeof *pivots);
    dgesv_(&n, &one, matrix, &n, pivots, right, &n, &info);
    free(pivots);
    return info;
}
