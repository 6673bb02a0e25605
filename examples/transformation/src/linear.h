/* The few calls of BLAS and LAPACK that are made, for matrices stored by rows. */
#ifndef LINEAR_H
#define LINEAR_H

/* c (m x n) = a (m x k) times b (k x n); `ta`, `tb`: a or b is stored transposed. */
void multiply(int m, int n, int k, const double *a, int ta, const double *b, int tb, double *c);

/* Eigenvalues in ascending order, and eigenvectors in the rows of `matrix`, which
 * is symmetric. */
void diagonalize(int n, double *matrix, double *values);

/* Solves matrix x = right, in place of right; 0 if it could. */
int solve(int n, double *matrix, double *right);

/* One thread: ranks share the cores. */
void linear_start(void);

#endif
