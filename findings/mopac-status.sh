#!/usr/bin/env bash
# What: the exit status, and the closing words, of MOPAC; Debian mopac 22.0.6+dfsg-1+b1.
# Guess: a status other than 0 where nothing was computed: a misspelled keyword, a charge that does not fit, an input that
#   is not there.
# Happens: 0 for all of them, and for the first two it prints that the job "ended normally". FILE.out has the error;
#   FILE.arc, the short file with the results, is left as the last run wrote it: it has that run's heat of formation.
# Who meets it: `mopac run.mop && next`, sbatch --dependency=afterok, and tables made of the .arc files of many molecules.
# Instead: rm -f run.arc before, and [ -e run.arc ] after: only a job that computed something writes it.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q mopac=22.0.6+dfsg-1+b1 libblas3 liblapack3 libgfortran5 libquadmath0 libgomp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1
try() { # what, keywords
    printf '%s\nwater\n\n O 0 1 0 1 0 1\n H 0.96 1 0 1 0 1\n H -0.24 1 0.93 1 0 1\n' "$2" >run.mop
    result=0; usr/bin/mopac run.mop >said 2>&1 </dev/null || result=$?
    echo "$1, $2: status $result, says 'ended normally' $(grep -c 'ended normally' said || true) times"
    echo "  heat of formation: .out $(heat run.out), .arc $(heat run.arc)"
}
heat() {
    [ -e "$1" ] || { echo "no file"; return; }
    awk '/HEAT OF FORMATION +=/ { for (i = 1; i < NF; i++) if ($i == "=") { printf "%.1f", $(i + 1); found = 1; exit } }
        END { if (!found) printf "none" }' "$1"
}
{
    try "right" "PM7"
    try "misspelled keyword" "PM7 CHRGE=1"
    try "no such method" "PM8"
    try "doublet with an even number of electrons" "PM7 DOUBLET"
    rm run.arc
    try "after rm run.arc" "PM7 CHRGE=1"
    result=0; usr/bin/mopac nosuch.mop >said 2>&1 </dev/null || result=$?
    echo "input that is not there: status $result"
} | tee out
diff - out <<'P'
right, PM7: status 0, says 'ended normally' 1 times
  heat of formation: .out -57.8, .arc -57.8
misspelled keyword, PM7 CHRGE=1: status 0, says 'ended normally' 1 times
  heat of formation: .out none, .arc -57.8
no such method, PM8: status 0, says 'ended normally' 1 times
  heat of formation: .out none, .arc -57.8
doublet with an even number of electrons, PM7 DOUBLET: status 0, says 'ended normally' 1 times
  heat of formation: .out none, .arc -57.8
after rm run.arc, PM7 CHRGE=1: status 0, says 'ended normally' 1 times
  heat of formation: .out none, .arc no file
input that is not there: status 0
P
echo "as observed: mopac exits with 0 after an error, and leaves the last results"
