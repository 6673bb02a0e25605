#!/usr/bin/env bash
# What: input_dft of Quantum ESPRESSO's pw.x with a name that it does not have; Debian quantum-espresso 6.7-2+b1.
# Guess: a functional that is not known is an error, as 'PEB' and 'SCAN' (without libxc) are.
# Happens: a name that is not in the table is searched for parts that are. Of HSE06, which pw.x calls HSE, the part for
#   the gradient of exchange is found; the local exchange and all correlation are none: aluminium has an energy of -2.6
#   in the place of -4.2 Ry, with status 0. PBEX or B3LPY likewise have a half of what was meant. The output says
#   'Exchange-correlation= HSE06' and has (0 0 12 0 ...) beside it, where HSE has (1 4 12 4 ...).
# Who meets it: who writes the functional as papers and other programs do, HSE06. Differences of such energies look like
#   energies.
# Instead: look at the numbers behind 'Exchange-correlation': none of the first four should be 0 for a GGA or a hybrid.
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
for name in PEB PBE PBEX PBESOL PBESOLX HSE HSE06 B3LYP B3LPY; do
    compute "input_dft = '$name'"
    echo "$name: status $status, $energy, $(grep -A1 -m1 Exchange-corr output | tail -1 | xargs)"
done | sed 's/, $//' | tee out
diff - out <<'P'
PEB: status 1, no energy
PBE: status 0, -4.2361 Ry, ( 1 4 3 4 0 0 0)
PBEX: status 0, -2.6016 Ry, ( 0 0 3 4 0 0 0)
PBESOL: status 0, -4.2324 Ry, ( 1 4 10 8 0 0 0)
PBESOLX: status 0, -2.6016 Ry, ( 0 0 3 4 0 0 0)
HSE: status 0, -4.2465 Ry, ( 1 4 12 4 0 0 0)
HSE06: status 0, -2.6260 Ry, ( 0 0 12 0 0 0 0)
B3LYP: status 0, -4.1742 Ry, ( 7 12 9 7 0 0 0)
B3LPY: status 0, -3.9924 Ry, ( 7 0 9 7 0 0 0)
P
echo "as observed: parts of a functional's name are a functional"
