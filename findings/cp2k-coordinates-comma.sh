#!/usr/bin/env bash
# What: numbers in CP2K's &COORD with a decimal comma, or one that is missing; Debian cp2k 2023.1-2.
# Guess: the run is aborted, as for `CUTOFF 150,5` and for `H 2.63 x 3`: 'Incorrectly formatted input line for atom 1'.
# Happens: `H 2,63 3 3` is read as 2, and `H 2.63 3` as 2.63 3 0, and the energy is computed, with status 0 and no warning.
# Who meets it: coordinates from a spreadsheet or from awk in a German or French locale, and columns that were cut. In a large
#   cell all atoms are on whole numbers, or one is elsewhere, and the energy is only somewhat too high.
# Instead: LC_ALL=C where coordinates are written; look at 'ATOMIC COORDINATES' in the output (PRINT_LEVEL MEDIUM).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install cp2k=2023.1-2 cp2k-data=2023.1-2 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d "$T/usr/share/cp2k" ] || root=$T
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export CP2K_DATA_DIR=$root/usr/share/cp2k HOME=$T TMPDIR=$T
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self OMPI_MCA_pml=ob1
export OMPI_MCA_ess_singleton_isolated=1      # no orted
compute() { # line of the first atom
    rm -f ./*.wfn* output
    cat >input <<E
&GLOBAL
  PROJECT h2
  RUN_TYPE ENERGY
  PRINT_LEVEL MEDIUM
&END
&FORCE_EVAL
  METHOD QS
  &DFT
    BASIS_SET_FILE_NAME BASIS_MOLOPT
    POTENTIAL_FILE_NAME GTH_POTENTIALS
    &MGRID
      CUTOFF ${2:-150}
    &END
    &SCF
      EPS_SCF 1E-6
      &OT
      &END
    &END
    &POISSON
      PERIODIC NONE
      PSOLVER MT
    &END
    &XC
      &XC_FUNCTIONAL PBE
      &END
    &END
  &END
  &SUBSYS
    &CELL
      ABC 6 6 6
      PERIODIC NONE
    &END
    &COORD
      $1
      H 3.37 3 3
    &END
    &KIND H
      BASIS_SET DZVP-MOLOPT-SR-GTH
      POTENTIAL GTH-PBE
    &END
  &END
&END
E
    status=0; "$root/usr/bin/cp2k.psmp" -i input -o output >words 2>&1 || status=$?
    touch output
    place=$(awk '/ATOMIC COORDINATES/ {n = NR + 3} n && NR == n {printf "%.2f %.2f %.2f", $5, $6, $7}' output)
    energy=$(awk '/ENERGY\| Total/ {printf "%.4f", $NF}' output)
    warnings=$(awk '/number of warnings for this run/ {print $NF}' output)
    echo "$1${2:+, CUTOFF $2}: status $status, atom at ${place:-no place}, energy ${energy:-none}, warnings ${warnings:-?}"
}
{
    compute 'H 2.63 3 3'; compute 'H 2,63 3 3'; compute 'H 2.63 3'; compute 'H 2.63 x 3'; compute 'H 2.63 3 3' 150,5
} | tee out
diff - out <<'E'
H 2.63 3 3: status 0, atom at 2.63 3.00 3.00, energy -1.1645, warnings 0
H 2,63 3 3: status 0, atom at 2.00 3.00 3.00, energy -1.0358, warnings 0
H 2.63 3: status 0, atom at 2.63 3.00 0.00, energy -0.8416, warnings 0
H 2.63 x 3: status 1, atom at no place, energy none, warnings ?
H 2.63 3 3, CUTOFF 150,5: status 1, atom at no place, energy none, warnings ?
E
echo "as observed: CP2K reads 2,63 as 2, and a coordinate that is missing as 0"
