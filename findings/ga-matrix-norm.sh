#!/usr/bin/env bash
# What: GA_Norm1 and GA_Norm_infinity of a matrix; Debian libglobalarrays-dev 5.8.2-1 (Global Arrays), Open MPI 4.1.4-3+b1.
# Guess: 'the 1-norm of the matrix or vector' (GlobalArray.h), and the infinity-norm: the largest sum of a column, and of a row, as
#   LAPACK's dlange has it.
# Happens: the matrix is taken for a long vector: the sum of all its elements without their signs, and the largest of them. For 1 to 9
#   these are 45 and 9 instead of 18 and 24. For vectors, and for a matrix of one column, both are right.
# Who meets it: tests of residuals and condition numbers, as norm(A) times norm(inverse of A): 1-norms are up to n times too large,
#   infinity-norms up to n times too small, so that what has not converged passes.
# Instead: dlange on the parts that GA_Distribution tells, with GA_Dgop, or the Frobenius norm, sqrt(GA_Ddot(a, a)).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install libglobalarrays-dev=5.8.2-1 libarmci-mpi-dev=0.3.1~beta-7 libscalapack-openmpi2.2 \
    liblapack3 openmpi-bin=4.1.4-3+b1 libopenmpi-dev=4.1.4-3+b1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
L=usr/lib/x86_64-linux-gnu
[ ! -d "$L/openmpi/lib" ] || export OPAL_PREFIX=$T/usr
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/$L:$T/$L/lapack:$T/$L/blas LIBRARY_PATH=$T/$L TMPDIR=$T OPENBLAS_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
cat >program.c <<'P'
#include <ga.h>
#include <macdecls.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
double dlange_(const char *kind, const int *m, const int *n, const double *a, const int *lda, double *work);
static void show(const char *name, int rows, int columns) {
    int shape[2] = {rows, columns}, low[2] = {0, 0}, high[2] = {rows - 1, columns - 1};
    double values[9], one, infinity, work[9];
    int a = NGA_Create(C_DBL, 2, shape, "a", NULL);
    for (int i = 0; i < rows * columns; i++) values[i] = 1 + i;
    if (GA_Nodeid() == 0) NGA_Put(a, low, high, values, &columns);
    GA_Sync();
    GA_Norm1(a, &one);
    GA_Norm_infinity(a, &infinity);
    double square = GA_Ddot(a, a);
    if (GA_Nodeid() == 0) {         /* LAPACK has columns where C has rows */
        double other_one = dlange_("I", &columns, &rows, values, &columns, work);
        double other_infinity = dlange_("1", &columns, &rows, values, &columns, work);
        double other_square = dlange_("F", &columns, &rows, values, &columns, work);
        printf("%s: 1-norm %g, LAPACK %g; infinity %g, LAPACK %g; Frobenius by GA_Ddot %.3f, LAPACK %.3f\n", name, one, other_one,
               infinity, other_infinity, sqrt(square), other_square);
        fflush(stdout);
    }
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    GA_Initialize();
    MA_init(C_DBL, 10000, 10000);
    show("3 x 3, 1 to 9", 3, 3);
    show("column, 1 to 9", 9, 1);
    GA_Terminate();
    MPI_Finalize();
}
P
at() { find "$T/$L" "/$L" -name "$1" 2>/dev/null | head -n 1; }
mpicc.openmpi -Iusr/include program.c -o program "$L/libga-openmpi.a" "$L/libarmci-openmpi.a" "$(at libscalapack-openmpi.so.2.2)" \
    "$(at liblapack.so.3)" "$(at libblas.so.3)" "$(at libgfortran.so.5)" -lm -Wl,--allow-shlib-undefined
timeout 60 mpirun.openmpi --oversubscribe -n 2 ./program </dev/null | tee out
diff - out <<'P'
3 x 3, 1 to 9: 1-norm 45, LAPACK 18; infinity 9, LAPACK 24; Frobenius by GA_Ddot 16.882, LAPACK 16.882
column, 1 to 9: 1-norm 45, LAPACK 45; infinity 9, LAPACK 9; Frobenius by GA_Ddot 16.882, LAPACK 16.882
P
echo "as observed: Global Arrays' norms of a matrix are those of a vector"
