#!/usr/bin/env bash
# What: numbers with a decimal comma in an input file of ABINIT; Debian abinit 9.6.2-1.
# Guess: an error, as for `ecut 5.5x` or `nstep 2.5`.
# Happens: what follows the comma is dropped: ecut 5,5 is 5, acell 3*10,26 is 10, with status 0 and no warning.
#   So is what follows a blank too many: `ecut 5 .5`.
# Who meets it: values from a spreadsheet, or from awk and printf in a German or French locale: a curve of energies over the
#   lattice constant or the cutoff has steps.
# Instead: LC_ALL=C where inputs are written; look at the echo of the variables in the output.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install abinit=9.6.2-1 libblas3 liblapack3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
apt-get download -q abinit-data=9.6.2-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
abinit=/usr/bin/abinit; [ ! -x "$T/usr/bin/abinit" ] || abinit=$T/usr/bin/abinit
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self OMPI_MCA_pml=ob1
export OMPI_MCA_ess_singleton_isolated=1      # no orted
run() { # lattice constant, cutoff, steps
    rm -rf run; mkdir run; cd run
    cat >silicon.abi <<E
acell 3*$1
rprim 0 .5 .5 .5 0 .5 .5 .5 0
ntypat 1 znucl 14 natom 2 typat 1 1
xred 0 0 0 .25 .25 .25
pp_dirpath "$T/usr/share/abinit/psp"
pseudos "14si.pspnc"
ecut $2
ngkpt 1 1 1 nshiftk 1 shiftk 0 0 0
nstep ${3:-20}
toldfe 1.0d-6
prtwf 0 prtden 0 prteig 0
E
    status=0; "$abinit" silicon.abi >output 2>&1 || status=$?
    touch silicon.abo
    value() { awk -v name="$1" '$1 == name {value = $2} END {printf "%.3f", value}' silicon.abo; }
    if [ $status = 0 ]; then
        echo "acell 3*$1, ecut $2: status 0, acell $(value acell) ecut $(value ecut), energy $(value etotal)," \
            "$(grep -c -- '--- !WARNING' output || true) warnings"
    else echo "acell 3*$1, ecut $2${3:+, nstep $3}: status $status"; fi
    cd ..
}
{
    run 10.26 5.5; run 10,26 5.5; run 10.26 5,5; run 10.26 '5 .5'; run 10.26 5.5x; run 10.26 5.5 2.5
} | tee out
diff - out <<'E'
acell 3*10.26, ecut 5.5: status 0, acell 10.260 ecut 5.500, energy -8.221, 0 warnings
acell 3*10,26, ecut 5.5: status 0, acell 10.000 ecut 5.500, energy -8.189, 0 warnings
acell 3*10.26, ecut 5,5: status 0, acell 10.260 ecut 5.000, energy -8.214, 0 warnings
acell 3*10.26, ecut 5 .5: status 0, acell 10.260 ecut 5.000, energy -8.214, 0 warnings
acell 3*10.26, ecut 5.5x: status 14
acell 3*10.26, ecut 5.5, nstep 2.5: status 14
E
echo "as observed: ABINIT drops what follows a comma"
