#!/usr/bin/env bash
# What: `ecut 10 Rydberg` in an input file of ABINIT; Debian abinit 9.6.2-1.
# Guess: Rydberg, as Ry is, or an error, as for electronvolt and Kelvin ('nosuch word').
# Happens: Hartree: the word is dropped, with status 0 and no further warning. A cutoff, or a smearing (tsmear), is twice the
#   one meant. Hartree, Bohr and Angstrom may be written in full.
# Who meets it: inputs with cutoffs of Quantum ESPRESSO: four times the work or more, another smearing, and other energies.
# Instead: Ry, and look at the echo of the variables at the end of the output: `ecut 1.00000000E+01 Hartree`.
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
run() { # cutoff, smearing
    rm -rf run; mkdir run; cd run
    cat >silicon.abi <<E
acell 3*10.26
rprim 0 .5 .5 .5 0 .5 .5 .5 0
ntypat 1 znucl 14 natom 2 typat 1 1
xred 0 0 0 .25 .25 .25
pp_dirpath "$T/usr/share/abinit/psp"
pseudos "14si.pspnc"
ecut $1
occopt 3 tsmear $2
ngkpt 1 1 1 nshiftk 1 shiftk 0 0 0
nstep 20 toldfe 1.0d-6
prtwf 0 prtden 0 prteig 0
E
    status=0; "$abinit" silicon.abi >output 2>&1 || status=$?
    touch silicon.abo
    value() { awk -v name="$1" '$1 == name {value = $2} END {printf "%.3f", value}' silicon.abo; }
    if [ $status = 0 ]; then
        echo "ecut $1, tsmear $2: status 0, ecut $(value ecut) tsmear $(value tsmear) Hartree, energy $(value etotal)," \
            "$(grep -c -- '--- !WARNING' output || true) warnings"
    else echo "ecut $1, tsmear $2: status $status"; fi
    cd ..
}
{
    run '5.0 Hartree' '0.02 Hartree'; run '10.0 Ry' '0.04 Ry'; run '10.0 Rydberg' '0.04 Rydberg'
    run '136.06 eV' '0.5442 eV'; run '136.06 electronvolt' '0.5442 eV'; run '5.0' '300 Kelvin'
} | tee out
diff - out <<'E'
ecut 5.0 Hartree, tsmear 0.02 Hartree: status 0, ecut 5.000 tsmear 0.020 Hartree, energy -8.232, 5 warnings
ecut 10.0 Ry, tsmear 0.04 Ry: status 0, ecut 5.000 tsmear 0.020 Hartree, energy -8.232, 5 warnings
ecut 10.0 Rydberg, tsmear 0.04 Rydberg: status 0, ecut 10.000 tsmear 0.040 Hartree, energy -8.323, 5 warnings
ecut 136.06 eV, tsmear 0.5442 eV: status 0, ecut 5.000 tsmear 0.020 Hartree, energy -8.232, 5 warnings
ecut 136.06 electronvolt, tsmear 0.5442 eV: status 14
ecut 5.0, tsmear 300 Kelvin: status 14
E
echo "as observed: ABINIT takes Rydberg for Hartree"
