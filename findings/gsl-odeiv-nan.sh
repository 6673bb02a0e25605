#!/usr/bin/env bash
# What: gsl_odeiv2_driver_apply where the right-hand side becomes NaN; Debian libgsl27 2.7.1+dfsg-5+deb12u1.
# Guess: GSL_FAILURE or a smaller step until the minimum, because the step size is controlled by an error that is NaN.
# Happens: GSL_SUCCESS: the driver goes on to the end with NaN, with rkf45, rkck, rk8pd and rk4. A comparison with NaN is
#   false, thus no step is too inaccurate. msadams fails where it begins.
# Who meets it: kinetics with a root of a concentration that is -1e-20, or a table that ends: with a smaller step the solver
#   could have passed it, and the caller, who looks at the status, writes NaN for the rest of the run.
# Instead: return GSL_EBADFUNC from the right-hand side where a value is not finite: the driver stops and says so.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=2.7.1+dfsg-5+deb12u1
apt-get download -q libgsl-dev=$version libgsl27=$version libgslcblas0=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <gsl/gsl_errno.h>
#include <gsl/gsl_odeiv2.h>
#include <math.h>
#include <stdio.h>
static int check;
static int rhs(double t, const double y[], double d[], void *nothing) {     /* y' = -sqrt(y): 0 at t = 2 */
    (void)t; (void)nothing;
    d[0] = -sqrt(y[0]);
    return check && !isfinite(d[0]) ? GSL_EBADFUNC : GSL_SUCCESS;
}
int main(void) {
    const gsl_odeiv2_step_type *types[] = {gsl_odeiv2_step_rkf45, gsl_odeiv2_step_rkck, gsl_odeiv2_step_rk8pd,
                                           gsl_odeiv2_step_rk4, gsl_odeiv2_step_msadams};
    gsl_set_error_handler_off();
    for (check = 0; check < 2; check++)
        for (int i = 0; i < 5; i++) {
            gsl_odeiv2_system system = {rhs, NULL, 1, NULL};
            gsl_odeiv2_driver *driver = gsl_odeiv2_driver_alloc_y_new(&system, types[i], 1e-3, 1e-8, 1e-8);
            double t = 0, y[1] = {1};
            gsl_odeiv2_driver_set_nmax(driver, 100000);
            int status = gsl_odeiv2_driver_apply(driver, &t, 3, y);
            printf("%s%s: %s, t %.2f, y %.2f\n", types[i]->name, check ? ", checked" : "", gsl_strerror(status), t, fabs(y[0]));
        }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -lgsl -lgslcblas -lm
LD_LIBRARY_PATH=$libraries ./program | tee out
diff - out <<'P'
rkf45: success, t 3.00, y nan
rkck: success, t 3.00, y nan
rk8pd: success, t 3.00, y nan
rk4: success, t 3.00, y nan
msadams: failure, t 2.00, y 0.00
rkf45, checked: problem with user-supplied function, t 1.99, y 0.00
rkck, checked: problem with user-supplied function, t 2.00, y 0.00
rk8pd, checked: problem with user-supplied function, t 1.89, y 0.00
rk4, checked: problem with user-supplied function, t 2.00, y 0.00
msadams, checked: problem with user-supplied function, t 1.61, y 0.04
P
echo "as observed: solvers of GSL go on with NaN and return GSL_SUCCESS"
