#!/usr/bin/env bash
# What: norms of a distributed matrix with a NaN, by PDLANGE; Debian libscalapack-openmpi2.2 2.2.1-2+b1, openmpi-bin 4.1.4.
# Guess: NaN, as of LAPACK's DLANGE, whatever the number of processes.
# Happens: the largest element ('M') is that of the others. With four processes the norms '1' and 'I' are the largest sum of a
#   column or row without a NaN. With one process they are NaN where it is in the first column or row, and elsewhere it
#   depends on the BLAS. Only 'F' is always NaN.
# Who meets it: the usual check of a solution, |A x - b| / (|A| |x|) < small with PDLANGE('I'), as ScaLAPACK's own tests have
#   it: a residual with a NaN passes in parallel, and does not with one process.
# Instead: the norm 'F', or count the NaN of each rank's own part and add the counts up.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install libscalapack-openmpi2.2=2.2.1-2+b1 openmpi-bin liblapack3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
find() { local file; for file in "$T/usr/$1" "/usr/$1"; do [ ! -e "$file" ] || { echo "$file"; return; }; done; return 1; }
L=lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$T/usr/$L:$T/usr/$L/blas:$T/usr/$L/lapack OPENBLAS_NUM_THREADS=1 TMPDIR=$T
[ ! -d "$T/usr/$L/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_hwloc_base_binding_policy=none
cat >program.c <<'P'
#include <math.h>
#include <stdio.h>
void Cblacs_pinfo(int *, int *), Cblacs_get(int, int, int *), Cblacs_gridinit(int *, const char *, int, int), Cblacs_exit(int);
void Cblacs_gridinfo(int, int *, int *, int *, int *), descinit_(int *, int *, int *, int *, int *, int *, int *, int *, int *, int *);
double pdlange_(const char *, int *, int *, double *, int *, int *, int *, double *);
double dlange_(const char *, int *, int *, double *, int *, double *);
int main(void) {
    int me, count, grid, rows, row, column, zero = 0, one = 1, all = 2, d[9], info;
    double part[4], whole[] = {NAN, 1, 1, 1}, work[64];
    Cblacs_pinfo(&me, &count);
    rows = count == 4 ? 2 : 1;
    int n = all / rows;     /* each process has n x n of the 2 x 2 elements */
    Cblacs_get(-1, 0, &grid); Cblacs_gridinit(&grid, "Row", rows, rows); Cblacs_gridinfo(grid, &rows, &rows, &row, &column);
    descinit_(d, &all, &all, &n, &n, &zero, &zero, &grid, &n, &info);
    for (int j = 0; j < n; j++) for (int i = 0; i < n; i++) part[n * j + i] = whole[2 * (n * column + j) + n * row + i];
    for (const char *norm = "M1IF"; *norm; norm++) {
        double result = pdlange_(norm, &all, &all, part, &one, &one, d, work);
        if (!me) printf("%d processes, norm %c: %g, DLANGE: %g\n", count, *norm, result, dlange_(norm, &all, &all, whole, &all, work));
    }
    Cblacs_exit(0);
}
P
gcc program.c -o program "$(find $L/libscalapack-openmpi.so.2.2)" "$(find $L/lapack/liblapack.so.3 || find $L/liblapack.so.3)" \
    -Wl,--allow-shlib-undefined
for processes in 1 4; do timeout 60 "$(find bin/mpirun.openmpi)" --oversubscribe -n $processes ./program </dev/null; done | tee out
diff - out <<'P'
1 processes, norm M: 1, DLANGE: nan
1 processes, norm 1: nan, DLANGE: nan
1 processes, norm I: nan, DLANGE: nan
1 processes, norm F: nan, DLANGE: nan
4 processes, norm M: 1, DLANGE: nan
4 processes, norm 1: 2, DLANGE: nan
4 processes, norm I: 2, DLANGE: nan
4 processes, norm F: nan, DLANGE: nan
P
echo "as observed: ScaLAPACK's norms lose a NaN, and '1' and 'I' only with several processes"
