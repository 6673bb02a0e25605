#!/usr/bin/env bash
# What: libxc with a density, gradient or kinetic energy density that is NaN; Debian libxc9 5.2.3-1.
# Guess: NaN for energy and potential, as from any formula.
# Happens: where the density is NaN, both are 0, as below the threshold of the density. A gradient of NaN is taken for 0: the
#   energy is that of a uniform density. For a metaGGA a kinetic energy density of NaN is a finite energy, too. No error.
# Who meets it: codes that rely on a total energy of NaN to see that a density went wrong (a division by 0 in a grid or in a
#   file that was read): the exchange is finite, and the points are missing from it.
# Instead: check the density with isfinite() before the call.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libxc-dev=5.2.3-1 libxc9=5.2.3-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <math.h>
#include <stdio.h>
#include <xc.h>
int main(void) {
    double n[] = {0.1, NAN, 0.1, 0.1, 0.1}, s[] = {0.01, 0.01, NAN, 0, 0.01}, t[] = {0.05, 0.05, 0.05, 0.05, NAN}, l[5] = {0};
    const char *points[] = {"right", "density NaN", "gradient NaN", "gradient 0", "kinetic NaN"};
    int ids[] = {XC_LDA_X, XC_GGA_X_PBE, XC_HYB_GGA_XC_B3LYP, XC_MGGA_X_TPSS};
    for (int i = 0; i < 4; i++) {
        xc_func_type f;
        double e[5], v[5], vs[5], vl[5], vt[5];
        if (xc_func_init(&f, ids[i], XC_UNPOLARIZED)) return 1;
        char *name = xc_functional_get_name(ids[i]);
        if (f.info->family == XC_FAMILY_LDA) xc_lda_exc_vxc(&f, 5, n, e, v);
        else if (f.info->family == XC_FAMILY_MGGA) xc_mgga_exc_vxc(&f, 5, n, s, l, t, e, v, vs, vl, vt);
        else xc_gga_exc_vxc(&f, 5, n, s, e, v, vs);
        for (int k = 0; k < 5; k++) printf("%s, %s: energy %.3f, potential %.3f\n", name, points[k], e[k], v[k]);
        xc_func_end(&f);
    }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -l:libxc.so.9 -lm
LD_LIBRARY_PATH=$libraries ./program | tee out
diff - out <<'P'
lda_x, right: energy -0.343, potential -0.457
lda_x, density NaN: energy 0.000, potential 0.000
lda_x, gradient NaN: energy -0.343, potential -0.457
lda_x, gradient 0: energy -0.343, potential -0.457
lda_x, kinetic NaN: energy -0.343, potential -0.457
gga_x_pbe, right: energy -0.352, potential -0.446
gga_x_pbe, density NaN: energy 0.000, potential 0.000
gga_x_pbe, gradient NaN: energy -0.343, potential -0.457
gga_x_pbe, gradient 0: energy -0.343, potential -0.457
gga_x_pbe, kinetic NaN: energy -0.352, potential -0.446
hyb_gga_xc_b3lyp, right: energy -0.322, potential -0.407
hyb_gga_xc_b3lyp, density NaN: energy 0.000, potential 0.000
hyb_gga_xc_b3lyp, gradient NaN: energy -0.316, potential -0.414
hyb_gga_xc_b3lyp, gradient 0: energy -0.316, potential -0.414
hyb_gga_xc_b3lyp, kinetic NaN: energy -0.322, potential -0.407
mgga_x_tpss, right: energy -0.352, potential -0.454
mgga_x_tpss, density NaN: energy 0.000, potential 0.000
mgga_x_tpss, gradient NaN: energy -0.343, potential -0.460
mgga_x_tpss, gradient 0: energy -0.343, potential -0.460
mgga_x_tpss, kinetic NaN: energy -0.388, potential -0.457
P
echo "as observed: libxc has finite energies for densities that are NaN"
