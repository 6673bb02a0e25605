#!/usr/bin/env bash
# What: gsl_integration_cquad where the function is NaN or infinite in a part of the interval; Debian libgsl27 2.7.1+dfsg-5+deb12u1.
# Guess: an error, or the integral over the rest, because its documentation says that it handles values of NaN or Inf. At
#   the least an error estimate that tells.
# Happens: the polynomial of the points that are left is integrated over the whole interval. The constant 1 with NaN above
#   0.5 has the integral 1, as with infinity, and with NaN above 0.3 it is 0.5. The error estimate is 1e-15, and the
#   status GSL_SUCCESS. gsl_integration_qag returns an error and NaN.
# Who meets it: integrands with a root or a logarithm that leave their domain for some parameters, or a table that ends: an
#   integral that is not defined has a value, with 15 digits.
# Instead: choose limits inside the domain, or look for !isfinite() in the function itself.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=2.7.1+dfsg-5+deb12u1
apt-get download -q libgsl-dev=$version libgsl27=$version libgslcblas0=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <gsl/gsl_errno.h>
#include <gsl/gsl_integration.h>
#include <math.h>
#include <stdio.h>
struct table { double end, beyond; };
static double constant(double x, void *p) { struct table *t = p; return x > t->end ? t->beyond : 1; }
int main(void) {
    struct table tables[] = {{2, 0}, {0.5, 0}, {0.5, NAN}, {0.5, INFINITY}, {0.3, NAN}, {0.9, NAN}};
    gsl_integration_cquad_workspace *w = gsl_integration_cquad_workspace_alloc(200);
    gsl_integration_workspace *w2 = gsl_integration_workspace_alloc(200);
    gsl_set_error_handler_off();
    for (int i = 0; i < 6; i++) {
        gsl_function f = {constant, &tables[i]};
        double result, error, result2, error2;
        size_t calls;
        int status = gsl_integration_cquad(&f, 0, 1, 0, 1e-8, w, &result, &error, &calls);
        int status2 = gsl_integration_qag(&f, 0, 1, 0, 1e-8, 200, GSL_INTEG_GAUSS21, w2, &result2, &error2);
        printf("1 up to %g, then %g: cquad %s, %.6f, error %s; qag %s, %.6f\n", tables[i].end, tables[i].beyond,
               gsl_strerror(status), result, error < 1e-7 ? "< 1e-7" : "larger", gsl_strerror(status2), result2);
    }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -lgsl -lgslcblas -lm
LD_LIBRARY_PATH=$libraries ./program | tee out
diff - out <<'P'
1 up to 2, then 0: cquad success, 1.000000, error < 1e-7; qag success, 1.000000
1 up to 0.5, then 0: cquad success, 0.500000, error < 1e-7; qag success, 0.500000
1 up to 0.5, then nan: cquad success, 1.000000, error < 1e-7; qag generic failure, nan
1 up to 0.5, then inf: cquad success, 1.000000, error < 1e-7; qag generic failure, inf
1 up to 0.3, then nan: cquad success, 0.500000, error < 1e-7; qag generic failure, nan
1 up to 0.9, then nan: cquad success, 1.000000, error < 1e-7; qag generic failure, nan
P
echo "as observed: cquad has a value with 15 digits for what is NaN in half of the interval"
