#!/usr/bin/env bash
# What: a label in on(), int1d() or int2d() that the mesh does not have; Debian freefem++ 4.11+dfsg1-3.
# Guess: an error or a warning: there is nothing on which the condition could be set.
# Happens: the condition, or the integral, is dropped without a word, and the status is 0: a load of 0, or a side that is free.
#   Where no side is left, the matrix is singular, the solution is of the order of 1e13, and the last line is 'Ok: Normal End'.
# Who meets it: labels that a mesh of Gmsh, or the order of the borders, has otherwise; labels that were renumbered.
# Instead: print labels(Th) and regions(Th), or `assert(int1d(Th, 7)(1.) > 0);`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install freefem++=4.11+dfsg1-3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
freefem=/usr/bin/FreeFem++; [ ! -x "$T/usr/bin/FreeFem++" ] || freefem=$T/usr/bin/FreeFem++
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
run() { # sides that are held, sides with a load, region of a source
    cat >membrane.edp <<E
verbosity = 0;
mesh Th = square(10, 10);       // its sides are 1, 2, 3 and 4, its region 0
fespace Vh(Th, P1);
Vh u, v;
solve membrane(u, v) = int2d(Th)(dx(u) * dx(v) + dy(u) * dy(v)) - int2d(Th, $3)(v) - int1d(Th, $2)(v) + on($1, u = 0);
real most = u[].linfty;
cout << "largest " << (most > 1e6 ? "above a million" : "") ;
if (most < 1e6) cout << most;
cout << endl;
E
    status=0; "$freefem" -nw -v 0 membrane.edp >output 2>&1 || status=$?
    echo "on($1), int1d(Th, $2), int2d(Th, $3): status $status, $(grep largest output)," \
        "$(grep -ciE 'warn|error|label' output || true) warnings"
}
{
    run 1,3 2 0; run 1,7 2 0; run 1,3 7 0; run 1,3 2 5; run 7 2 0
    printf 'mesh Th = square(10, 10);\nassert(int1d(Th, 7)(1.) > 0);\n' >assert.edp
    status=0; "$freefem" -nw -v 0 assert.edp >output 2>&1 || status=$?
    echo "assert: $([ $status = 0 ] && echo status 0 || echo another status)"
} | tee out
diff - out <<'E'
on(1,3), int1d(Th, 2), int2d(Th, 0): status 0, largest 0.494379, 0 warnings
on(1,7), int1d(Th, 2), int2d(Th, 0): status 0, largest 1.31601, 0 warnings
on(1,3), int1d(Th, 7), int2d(Th, 0): status 0, largest 0.125, 0 warnings
on(1,3), int1d(Th, 2), int2d(Th, 5): status 0, largest 0.369379, 0 warnings
on(7), int1d(Th, 2), int2d(Th, 0): status 0, largest above a million, 0 warnings
assert: another status
E
echo "as observed: FreeFEM drops a condition on a label that is not there"
