#!/usr/bin/env bash
# What: gsl_movstat_mean, _sum and _sd of a series with one outlier or NaN; Debian libgsl27 2.7.1+dfsg-5+deb12u1, a window of 3.
# Guess: only the windows that hold it are affected: each result depends on the values in its window.
# Happens: the sum goes along with the window: the new value is added and the old one subtracted. After 1e20 the digits of
#   its neighbours are lost for good: all later means and sums are too small. After a NaN or an infinity all later
#   results are NaN. Nothing is returned but GSL_SUCCESS. Minimum, maximum and median have no such memory of 1e20.
# Who meets it: time series smoothed with fill values in them (1e20 and 9.96921e+36 in climate data), or with a spike of a
#   sensor. The means are plausible: 1, 2, 3 instead of 6, 7, 8.
# Instead: leave such values out before, or gsl_movstat_apply with a function that calls gsl_stats_mean.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=2.7.1+dfsg-5+deb12u1
apt-get download -q libgsl-dev=$version libgsl27=$version libgslcblas0=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <gsl/gsl_movstat.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
static double mean(const size_t n, double x[], void *nothing) { (void)nothing; return gsl_stats_mean(x, 1, n); }
static void show(const char *name, const gsl_vector *v) {
    printf("%-15s", name);
    for (size_t i = 0; i < v->size; i++) printf(" %.3g", fabs(gsl_vector_get(v, i)));   /* no sign of a NaN */
    puts("");
}
int main(void) {
    double odd[] = {4, 1e20, NAN};
    gsl_movstat_function own = {mean, NULL};
    for (int k = 0; k < 3; k++) {
        gsl_vector *x = gsl_vector_alloc(12), *y = gsl_vector_alloc(12);
        gsl_movstat_workspace *w = gsl_movstat_alloc(3);
        int status = 0;
        for (size_t i = 0; i < 12; i++) gsl_vector_set(x, i, 1.0 + i);
        gsl_vector_set(x, 3, odd[k]);
        show("series", x);
        status |= gsl_movstat_mean(GSL_MOVSTAT_END_PADVALUE, x, y, w); show("mean", y);
        status |= gsl_movstat_sd(GSL_MOVSTAT_END_PADVALUE, x, y, w); show("sd", y);
        status |= gsl_movstat_median(GSL_MOVSTAT_END_PADVALUE, x, y, w); show("median", y);
        status |= gsl_movstat_apply(GSL_MOVSTAT_END_PADVALUE, &own, x, y, w); show("mean, own", y);
        printf("status %d\n", status);
    }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -lgsl -lgslcblas -lm
LD_LIBRARY_PATH=$libraries ./program | tee out
diff - out <<'P'
series          1 2 3 4 5 6 7 8 9 10 11 12
mean            1.33 2 3 4 5 6 7 8 9 10 11 11.7
sd              0.577 1 1 1 1 1 1 1 1 1 1 0.577
median          1 2 3 4 5 6 7 8 9 10 11 12
mean, own       1.33 2 3 4 5 6 7 8 9 10 11 11.7
status 0
series          1 2 3 1e+20 5 6 7 8 9 10 11 12
mean            1.33 2 3.33e+19 3.33e+19 3.33e+19 0 1 2 3 4 5 5.67
sd              0.577 1 5.77e+19 5.77e+19 5.77e+19 0 4.24 6 7.35 8.49 9.49 10.1
median          1 2 3 5 6 6 7 8 9 10 11 12
mean, own       1.33 2 3.33e+19 3.33e+19 3.33e+19 6 7 8 9 10 11 11.7
status 0
series          1 2 3 nan 5 6 7 8 9 10 11 12
mean            1.33 2 nan nan nan nan nan nan nan nan nan nan
sd              0.577 1 nan nan nan nan nan nan nan nan nan nan
median          1 2 2 3 5 6 7 8 9 10 11 12
mean, own       1.33 2 nan nan nan 6 7 8 9 10 11 11.7
status 0
P
echo "as observed: after one outlier all later moving means are wrong"
