#!/usr/bin/env bash
# What: gsl_histogram_increment with NaN, and the program gsl-histogram with NaN or text; Debian libgsl27 2.7.1+dfsg-5+deb12u1.
# Guess: NaN is in no range, thus it is not counted, and GSL_EDOM is returned, as for all values outside. gsl-histogram says
#   where a line is no number.
# Happens: NaN is counted in the first bin, with status 0. gsl-histogram counts it so, too; at the first word that is no
#   number it stops reading, prints the histogram of what was before, and exits with 0.
# Who meets it: results of many runs, some of which are NaN or FAILED: a peak at the lowest energy, or the first part of the data.
# Instead: `isfinite()` before, or `grep -E '^[-+.0-9eE]+$'` before gsl-histogram.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=2.7.1+dfsg-5+deb12u1
apt-get download -q gsl-bin=$version libgsl-dev=$version libgsl27=$version libgslcblas0=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <gsl/gsl_errno.h>
#include <gsl/gsl_histogram.h>
#include <math.h>
#include <stdio.h>
int main(void) {
    double values[] = {7, -1, 10, INFINITY, NAN};
    gsl_set_error_handler_off();
    for (int i = 0; i < 5; i++) {
        gsl_histogram *h = gsl_histogram_alloc(4);
        gsl_histogram_set_ranges_uniform(h, 0, 8);
        int status = gsl_histogram_increment(h, values[i]);
        printf("%g: status %d, bins", values[i], status);
        for (int k = 0; k < 4; k++) printf(" %g", gsl_histogram_get(h, k));
        puts("");
    }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -lgsl -lgslcblas -lm
export LD_LIBRARY_PATH=$libraries
{
    ./program
    for data in '5 5 -1 7' '5 5 nan 7' '5 FAILED 7 7 7'; do
        status=0; bins=$(tr ' ' '\n' <<<"$data" | usr/bin/gsl-histogram 0 8 4 | awk '{printf " %s", $3}') || status=$?
        echo "gsl-histogram of $data: status $status, bins$bins"
    done
} 2>&1 | tee out
diff - out <<'P'
7: status 0, bins 0 0 0 1
-1: status 1, bins 0 0 0 0
10: status 1, bins 0 0 0 0
inf: status 1, bins 0 0 0 0
nan: status 0, bins 1 0 0 0
gsl-histogram of 5 5 -1 7: status 0, bins 0 0 2 1
gsl-histogram of 5 5 nan 7: status 0, bins 1 0 2 1
gsl-histogram of 5 FAILED 7 7 7: status 0, bins 0 0 1 0
P
echo "as observed: NaN is in the first bin, and a word ends the data"
