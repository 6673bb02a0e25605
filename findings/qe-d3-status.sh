#!/usr/bin/env bash
# What: vdw_corr='grimme-d3' in Quantum ESPRESSO's pw.x with a functional that it has no parameters for; Debian
#   quantum-espresso 6.7-2+b1.
# Guess: 'Error in routine ...', a file CRASH and status 1, as for all other input that does not fit, XDM's among it.
# Happens: the last line of the output is 'program stopped due to: functional name unknown'; the status is 0 and
#   there is no file CRASH and no energy.
# Who meets it: pseudopotentials of LDA, or input_dft of a functional out of the table, in a series of jobs: Slurm has
#   it as completed, a script with `set -e` goes on to pp.x or ph.x with what is left in outdir from the run before.
# Instead: look for 'JOB DONE' in each output.
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
for line in "" "vdw_corr = 'grimme-d3'" "input_dft = 'PBE', vdw_corr = 'grimme-d3'" "vdw_corr = 'xdm'"; do
    compute "$line"
    echo "${line:-without}: status $status, $energy, $(grep -c 'JOB DONE' output) done," \
        "$([ -e CRASH ] && echo CRASH || echo no CRASH), $(grep -o 'program stopped.*' output || true)"
done | sed 's/, $//' | tee out
diff - out <<'P'
without: status 0, -4.2342 Ry, 1 done, no CRASH
vdw_corr = 'grimme-d3': status 0, no energy, 0 done, no CRASH, program stopped due to: functional name unknown
input_dft = 'PBE', vdw_corr = 'grimme-d3': status 0, -4.2475 Ry, 1 done, no CRASH
vdw_corr = 'xdm': status 1, no energy, 0 done, CRASH
P
echo "as observed: pw.x exits with 0 where D3 stops it"
