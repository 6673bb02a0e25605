#!/usr/bin/env bash
# What: assume_isolated of Quantum ESPRESSO's pw.x with a word that it does not know; Debian quantum-espresso 6.7-2+b1.
# Guess: an unknown word is an error, as it is for mixing_mode, diagonalization, smearing and calculation.
# Happens: it is 'none', without a warning. Capitals matter as well: '2D' is known, '2d' is not.
# Who meets it: molecules and slabs, for which one letter is wrong ('martyna-tukerman', 'Makov-Payne'): the energy is
#   that of the periodic system, with status 0.
# Instead: look in the output for 'Assuming isolated system' or 'Makov-Payne correction'.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install quantum-espresso=6.7-2+b1 quantum-espresso-data=6.7-2 |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d "$T/usr/share/espresso" ] || root=$T
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1
export OMP_NUM_THREADS=1 HOME=$T TMPDIR=$T
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self OMPI_MCA_pml=ob1
export OMPI_MCA_ess_singleton_isolated=1      # no orted
compute() { # a line of &system
    cat >input <<P
&control
 calculation = 'scf', pseudo_dir = '$root/usr/share/espresso/pseudo', outdir = './files'
/
&system
 ibrav = 2, celldm(1) = 7.5, nat = 1, ntyp = 1, ecutwfc = 12, occupations = 'smearing', degauss = 0.05
 $1
/
&electrons
/
ATOMIC_SPECIES
 Al 26.98 Al.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Al 0 0 0
K_POINTS automatic
 2 2 2 0 0 0
P
    rm -rf files CRASH; status=0; "$root/usr/bin/pw.x" -in input >output 2>&1 || status=$?
    energy=$(awk '/^! +total energy/ {e = sprintf("%.4f Ry", $5)} END {print e ? e : "no energy"}' output)
}
method='Assuming isolated|Makov-Payne correction +[-0-9]'
for word in none martyna-tuckerman martyna-tukerman Martyna-Tuckerman makov-payne Makov-Payne; do
    compute "assume_isolated = '$word'"
    echo "$word: status $status, $energy, $(grep -cE "$method" output) lines of it"
done | tee out
# 2D does not go with this cell, but is known.
compute "assume_isolated = '2D'"; echo "2D: status $([ $status = 0 ] && echo 0 || echo not 0), $energy" | tee -a out
compute "assume_isolated = '2d'"; echo "2d: status $status, $energy" | tee -a out
diff - out <<'P'
none: status 0, -4.2342 Ry, 0 lines of it
martyna-tuckerman: status 0, -3.6395 Ry, 1 lines of it
martyna-tukerman: status 0, -4.2342 Ry, 0 lines of it
Martyna-Tuckerman: status 0, -4.2342 Ry, 0 lines of it
makov-payne: status 0, -4.2342 Ry, 1 lines of it
Makov-Payne: status 0, -4.2342 Ry, 0 lines of it
2D: status not 0, no energy
2d: status 0, -4.2342 Ry
P
echo "as observed: an unknown assume_isolated is none"
