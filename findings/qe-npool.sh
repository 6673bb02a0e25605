#!/usr/bin/env bash
# What: pw.x of Quantum ESPRESSO with -npool written in other ways; Debian quantum-espresso 6.7-2+b1.
# Guess: an argument that it does not know, or a number that is none, is an error.
# Happens: `-npool=4`, `--npool 4`, `-npol 4` and `-npool 4x` are dropped without a word, and there is one pool: k
#   points are not divided, and all processes share the plane waves of one. Here one process is told of two pools:
#   that is an error only where the argument is understood. With `mpirun -n 2` they run, and the output does not have
#   'npool = 2'.
# Who meets it: jobs over the network of PCs, where pools are what makes pw.x scale; with one pool each FFT is an
#   exchange of all with all. The energy is right, so nobody looks.
# Instead: `-npool 4` or `-nk 4`, and look for 'K-points division: npool' in the output.
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
compute() { # arguments
    cat >input <<P
&control
 calculation = 'scf', pseudo_dir = '$root/usr/share/espresso/pseudo', outdir = './files'
/
&system
 ibrav = 2, celldm(1) = 7.5, nat = 1, ntyp = 1, ecutwfc = 12, occupations = 'smearing', degauss = 0.05
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
    rm -rf files CRASH; status=0; "$root/usr/bin/pw.x" "$@" -in input >output 2>&1 || status=$?
    energy=$(awk '/^! +total energy/ {e = sprintf("%.4f Ry", $5)} END {print e ? e : "no energy"}' output)
}
for arguments in '' '-npool 1' '-npool 2' '-nk 2' '-npools 2' '-npool=2' '--npool 2' '-npol 2' '-npool 2x' '-nosuch'; do
    # shellcheck disable=SC2086
    compute $arguments
    echo "pw.x $arguments: status $status, $energy, $(grep -m1 -o 'invalid number of pools' output || true)"
done | sed 's/, $//; s/ :/:/' | tee out
diff - out <<'P'
pw.x: status 0, -4.2342 Ry
pw.x -npool 1: status 0, -4.2342 Ry
pw.x -npool 2: status 1, no energy, invalid number of pools
pw.x -nk 2: status 1, no energy, invalid number of pools
pw.x -npools 2: status 1, no energy, invalid number of pools
pw.x -npool=2: status 0, -4.2342 Ry
pw.x --npool 2: status 0, -4.2342 Ry
pw.x -npol 2: status 0, -4.2342 Ry
pw.x -npool 2x: status 0, -4.2342 Ry
pw.x -nosuch: status 0, -4.2342 Ry
P
echo "as observed: arguments that pw.x does not understand are dropped"
