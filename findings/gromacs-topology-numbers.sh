#!/usr/bin/env bash
# What: numbers with other letters behind them in a topology of GROMACS, as of Fortran's exponents; Debian gromacs 2022.5-2.
# Guess: an error, as for the same words in the .mdp file ('is not a real value').
# Happens: what is behind the digits is dropped: a force constant of 3.45D5 is 3.45, and a charge of 4.238D-1 is 4.238, ten
#   times as large. grompp exits with 0 and says nothing: the sum of the charges is still 0. A decimal comma is an error for
#   some numbers, and cuts others.
# Who meets it: force fields written by Fortran programs, and by scripts that fit parameters.
# Instead: `grep -nE '[0-9.]D[-+0-9]' *.top *.itp`, and `gmx dump -s topol.tpr`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q gromacs=2022.5-2 libgromacs7=2022.5-2 libfftw3-single3 libfftw3-double3 libmuparser2v5 libblas3 liblapack3 \
    libgfortran5 libquadmath0 libgomp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1
printf '%s\n' water 3 '    1SOL     OW    1   1.000   1.000   1.000' '    1SOL    HW1    2   1.100   1.000   1.000' \
    '    1SOL    HW2    3   0.967   1.094   1.000' ' 2.00000 2.00000 2.00000' >water.gro
echo 'SOL Water' >residuetypes.dat         # that of gromacs-data is 40 MB
try() { # charge of oxygen and hydrogen, force constant, time step
    cat >water.top <<P
[ defaults ]
1 2
[ atomtypes ]
OW 8 15.9994 0 A 0.3166 0.650
HW 1 1.008 0 A 0 0
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 $1
2 HW 1 SOL HW1 1 $2
3 HW 1 SOL HW2 1 $2
[ bonds ]
1 2 1 0.1 $3
1 3 1 0.1 $3
[ system ]
water
[ molecules ]
SOL 1
P
    printf '%s\n' 'integrator = md' 'nsteps = 10' "dt = $4" 'rcoulomb = 0.9' 'rvdw = 0.9' >water.mdp
    status=0; rm -f water.tpr
    usr/bin/gmx -quiet grompp -f water.mdp -c water.gro -p water.top -o water.tpr >words 2>&1 </dev/null || status=$?
    echo "$*: status $status, warnings and errors: $(grep -cE '^(WARNING|ERROR)' words || true)"
    [ ! -f water.tpr ] || usr/bin/gmx -quiet dump -s water.tpr 2>/dev/null | grep -oE ' q=[^,]*|cbA=[^,]*' | sort -u | tr -s ' ' | xargs
}
{
    try -0.8476 0.4238 3.45E5 0.0005
    try -8.476E-1 4.238E-1 3.45E5 0.0005
    try -8.476D-1 4.238D-1 3.45E5 0.0005
    try -0.8476 0.4238 3.45D5 0.0005
    try -0.8476 0.4238 345000,5 0.0005
    try -0.8476 0.4238 3.45E5 5.0D-4
} | tee out
diff - out <<'P'
-0.8476 0.4238 3.45E5 0.0005: status 0, warnings and errors: 0
q= 4.23800e-01 q=-8.47600e-01 cbA= 3.45000e+05
-8.476E-1 4.238E-1 3.45E5 0.0005: status 0, warnings and errors: 0
q= 4.23800e-01 q=-8.47600e-01 cbA= 3.45000e+05
-8.476D-1 4.238D-1 3.45E5 0.0005: status 0, warnings and errors: 0
q= 4.23800e+00 q=-8.47600e+00 cbA= 3.45000e+05
-0.8476 0.4238 3.45D5 0.0005: status 0, warnings and errors: 0
q= 4.23800e-01 q=-8.47600e-01 cbA= 3.45000e+00
-0.8476 0.4238 345000,5 0.0005: status 0, warnings and errors: 0
q= 4.23800e-01 q=-8.47600e-01 cbA= 3.45000e+05
-0.8476 0.4238 3.45E5 5.0D-4: status 1, warnings and errors: 1
P
echo "as observed: grompp drops what is behind the digits in a topology"
