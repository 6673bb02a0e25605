#!/usr/bin/env bash
# What: several names on one line for gmx energy; Debian gromacs 2022.5-2.
# Guess: all of them: it asks for '(part of) the name or the number or a combination', and `5 11` on one line are two terms.
# Happens: of names on one line the last is taken. The line is compared with the list as a whole, then without its first word,
#   and so on: the first words are lost. A misspelled word between others, too, and `5,11` is 5. Among the output are lines
#   'does not match anything'; the status is 0, and the file has fewer columns.
# Who meets it: `echo "Potential Pressure" | gmx energy -o energy.xvg` in a script: the second column is the pressure, and is
#   read as the potential.
# Instead: one name a line, `printf '%s\n' Potential Pressure | gmx energy`; look at the legends in the file.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q gromacs=2022.5-2 libgromacs7=2022.5-2 libfftw3-single3 libfftw3-double3 libmuparser2v5 libblas3 liblapack3 \
    libgfortran5 libquadmath0 libgomp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1 GMX_MAXBACKUP=-1
printf '%s\n' argon 2 '    1AR      AR    1   1.000   1.000   1.000' '    2AR      AR    2   1.400   1.000   1.000' \
    ' 2.00000 2.00000 2.00000' >argon.gro
printf '%s\n' '[ defaults ]' '1 2' '[ atomtypes ]' 'AR 18 39.948 0 A 0.34 1.0' '[ moleculetype ]' 'AR 1' '[ atoms ]' \
    '1 AR 1 AR AR 1 0' '[ system ]' argon '[ molecules ]' 'AR 2' >argon.top
printf '%s\n' 'integrator = md' 'nsteps = 10' 'dt = 0.001' 'rcoulomb = 0.9' 'rvdw = 0.9' 'nstenergy = 5' >argon.mdp
echo 'AR Ion' >residuetypes.dat
gmx() { usr/bin/gmx -quiet "$@" >words 2>&1; }
gmx grompp -f argon.mdp -c argon.gro -p argon.top -o argon.tpr </dev/null
gmx mdrun -s argon.tpr -deffnm argon -ntmpi 1 -ntomp 1 -pin off </dev/null
try() { # selection
    rm -f energy.xvg; status=0
    printf '%b\n' "$1" | gmx energy -f argon.edr -o energy.xvg || status=$?
    columns=none; [ ! -f energy.xvg ] || columns=$(sed -n 's/^@ s[0-9]* legend "\(.*\)"/\1/p' energy.xvg | xargs)
    echo "$1: status $status, columns: $columns"
}
numbers=$(for name in Potential Pressure; do grep -oE "[0-9]+ +$name " <(try "$name" >/dev/null; cat words) | cut -d' ' -f1; done | xargs)
{
    try 'Potential\nPressure'
    try 'Potential Pressure'
    try 'Potential Presure Temperature'
    try 'Potential, Temperature'
    try 'Potential Temprature'
    try "$numbers" | sed "s/^$numbers/their numbers/"
    try "${numbers/ /,}" | sed "s/^${numbers/ /,}/with a comma/"
} | tee out
diff - out <<'P'
Potential\nPressure: status 0, columns: Potential Pressure
Potential Pressure: status 0, columns: Pressure
Potential Presure Temperature: status 0, columns: Temperature
Potential, Temperature: status 0, columns: Temperature
Potential Temprature: status 1, columns: none
their numbers: status 0, columns: Potential Pressure
with a comma: status 0, columns: Potential
P
echo "as observed: of names on one line gmx energy takes the last"
