#!/usr/bin/env bash
# What: the exit status of CalculiX's ccx after some errors; Debian calculix-ccx 2.20-1.
# Guess: 201, as after other errors: a set, node, material or amplitude that is not there.
# Happens: 0 where the input file, or one that it includes, is not there, and where ARPACK fails in *FREQUENCY or *BUCKLE.
#   Then the results have eigenvalues of 0. '*ERROR' is in the output for those who read it.
# Who meets it: job scripts with `ccx name && next`: a job in the wrong folder has succeeded. More modes than a small model
#   allows are frequencies of 0 Hz.
# Instead: `! grep -q '\*ERROR'` of the output, too.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install calculix-ccx=2.20-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
ccx=/usr/bin/ccx; [ ! -x "$T/usr/bin/ccx" ] || ccx=$T/usr/bin/ccx
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 HOME=$T TMPDIR=$T
cube() { # step, its load
    cat <<E
*NODE, NSET=ALL
1,0,0,0
2,1,0,0
3,1,1,0
4,0,1,0
5,0,0,1
6,1,0,1
7,1,1,1
8,0,1,1
*ELEMENT, TYPE=C3D8, ELSET=CUBE
1,1,2,3,4,5,6,7,8
*NSET, NSET=BOTTOM
1,2,3,4
*NSET, NSET=TOP
5,6,7,8
*MATERIAL, NAME=STEEL
*ELASTIC
210000,0.3
*DENSITY
7.8E-9
*SOLID SECTION, ELSET=CUBE, MATERIAL=STEEL
*BOUNDARY
BOTTOM,1,3
*STEP
$1
$2
*NODE PRINT, NSET=TOP
U
*END STEP
E
}
run() { # label, name of the input
    status=0; rm -f cube.dat
    "$ccx" "$2" >output 2>&1 || status=$?
    values=
    [ ! -f cube.dat ] || values=$(awk '/CYCLES.TIME/ {on = 1} /P A R T/ {on = 0} on && NF == 5 {printf " %.0f", $4}' cube.dat)
    echo "$1: status $status, $(grep -c '\*ERROR' output || true) lines *ERROR${values:+, Hz:$values}"
}
{
    cube '*STATIC' $'*CLOAD\nTOP,3,100' >cube.inp; run 'right' cube
    cube '*STATIC' $'*CLOAD\nROOF,3,100' >cube.inp; run 'a set that is not there' cube
    cube '*STATIC' $'*CLOAD\n99,3,100' >cube.inp; run 'a node that is not there' cube
    run 'an input that is not there' tube
    cube '*STATIC' $'*INCLUDE, INPUT=loads.inp' >cube.inp; run 'an include that is not there' cube
    cube $'*FREQUENCY\n1' '' >cube.inp; run '1 mode' cube
    cube $'*FREQUENCY\n3' '' >cube.inp; run '3 modes' cube
} | tee out
diff - out <<'E'
right: status 0, 0 lines *ERROR
a set that is not there: status 201, 3 lines *ERROR
a node that is not there: status 201, 2 lines *ERROR
an input that is not there: status 0, 1 lines *ERROR
an include that is not there: status 0, 1 lines *ERROR
1 mode: status 0, 0 lines *ERROR, Hz: 654708
3 modes: status 0, 2 lines *ERROR, Hz: 0 0 0
E
echo "as observed: ccx exits with 0 after some errors"
