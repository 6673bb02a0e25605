#!/usr/bin/env bash
# What: the exit status of Elk after an error that it reports itself; Debian elk-lapw 8.4.30-1.
# Guess: not 0, as of a line that it cannot read (2).
# Happens: 0 after 'Error(...)': a block name that is misspelled, a functional or a file of a species that is not there, an input
#   file that is not there, and also without self-consistency ('Warning'). TOTENERGY.OUT has lines in the last case, too.
# Who meets it: job scripts with `set -e` or &&, Slurm's afterok, and workflows: the next step starts with the old STATE.OUT.
# Instead: `! grep -qE 'Error\(|Warning\(gndstate'` of the output, too.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install elk-lapw=8.4.30-1 libblas3 liblapack3 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/elk-lapw" ] || root=$T
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 HOME=$T TMPDIR=$T
run() { # label, species, block, its value
    rm -f ./*.OUT elk.in
    [ "$1" = 'no elk.in' ] || cat >elk.in <<E
tasks
  0

sppath
  '$root/usr/share/elk-lapw/species/'

avec
  3.75 3.75 0.0
  3.75 0.0 3.75
  0.0 3.75 3.75

atoms
  1
  '$2'
  1
  0.0 0.0 0.0 0.0 0.0 0.0

ngridk
  2 2 2

$3
  $4

E
    status=0
    "$root/usr/bin/elk-lapw" >output 2>&1 || status=$?
    energy=$(tail -n 1 TOTENERGY.OUT 2>/dev/null | awk '{printf "%.1f", $1}' || true)
    echo "$1: status $status, energy ${energy:-none}, $(grep -oE '(Error|Warning)\([a-z]*\)' output | head -n 1 || true)"
}
{
    run right Al.in rgkmax 7.0
    run 'two values for three' Al.in ngridk '4 4'
    run 'misspelled block' Al.in rgkmaxx 7.0
    run 'functional 99' Al.in xctype 99
    run 'no such species' Alu.in rgkmax 7.0
    run 'no elk.in' Al.in rgkmax 7.0
    run 'not converged' Al.in maxscl 3
} | tee out
diff - out <<'E'
right: status 0, energy -241.9, 
two values for three: status 2, energy none, 
misspelled block: status 0, energy none, Error(readinput)
functional 99: status 0, energy none, Error(getxcdata)
no such species: status 0, energy none, Error(readspecies)
no elk.in: status 0, energy none, Error(readinput)
not converged: status 0, energy -242.1, Warning(gndstate)
E
echo "as observed: Elk exits with 0 after errors"
