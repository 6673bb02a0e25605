#!/usr/bin/env bash
# What: libxc's xc_gga_... with a functional of another family, and xc_lda_... with a GGA; Debian libxc9 5.2.3-1.
# Guess: an error, or with xc_gga_... the values of the LDA, which needs less than a GGA has.
# Happens: energy and potential are set to 0, and nothing is said: the functions return nothing. The program goes on without
#   exchange or correlation.
# Who meets it: small codes whose input has the functional's name (GGA_X_PBE), or its number, and is changed to LDA_X: a
#   calculation for comparison has no exchange at all.
# Instead: choose the function by f.info->family (XC_FAMILY_LDA, XC_FAMILY_GGA, XC_FAMILY_HYB_GGA, ...), and stop for others.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q libxc-dev=5.2.3-1 libxc9=5.2.3-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >program.c <<'P'
#include <stdio.h>
#include <xc.h>
int main(void) {
    const char *names[] = {"lda_x", "gga_x_pbe", "hyb_gga_xc_b3lyp"};
    double n = 0.1, s = 0.01, e, v, vs;
    for (int i = 0; i < 3; i++) {
        xc_func_type f;
        if (xc_func_init(&f, xc_functional_get_number(names[i]), XC_UNPOLARIZED)) return 1;
        e = v = 7; xc_lda_exc_vxc(&f, 1, &n, &e, &v); printf("%s: xc_lda %.3f %.3f", names[i], e, v);
        e = v = 7; xc_gga_exc_vxc(&f, 1, &n, &s, &e, &v, &vs); printf(", xc_gga %.3f %.3f\n", e, v);
        xc_func_end(&f);
    }
}
P
libraries=usr/lib/x86_64-linux-gnu
gcc -Iusr/include program.c -o program -L$libraries -l:libxc.so.9 -lm
LD_LIBRARY_PATH=$libraries ./program 2>&1 | tee out
diff - out <<'P'
P
echo "as observed: a functional of another family is 0 for libxc"
