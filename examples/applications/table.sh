#!/usr/bin/env bash
# Programs of Debian over every transport, in interleaved rounds, and one table of them all. As root, with an emulated cluster:
#   wiglaf up --nodes 4 && examples/applications/table.sh 2 5 out-2 && examples/applications/table.sh 4 5 out-4
#   wiglaf down && wiglaf up --nodes 4 --rate 1gbit && examples/applications/table.sh 4 5 out-4-1gbit
# Arguments: nodes, rounds, a new folder for inputs and reports, and a pattern for those programs alone whose names match it. It takes
# the Debian packages that it names.
set -euo pipefail
nodes=${1-2} rounds=${2-5} out=${3-programs} only=${4-.}
here=$(cd "$(dirname "$0")" && pwd)
wiglaf=${WIGLAF-wiglaf}
for program in pw.x:quantum-espresso cp2k.popt:cp2k nwchem.openmpi:nwchem-openmpi lmp:lammps gmx_mpi:gromacs hpcc:hpcc; do
    command -v "${program%:*}" >/dev/null || { echo "${program%:*} is missing: apt-get install ${program#*:}" >&2; exit 2; }
done
examples=/usr/share/lammps/examples
[ -d $examples ] || { echo "$examples is missing: apt-get install lammps-examples" >&2; exit 2; }
mkdir "$out"
cd "$out"

# Inputs.
sed 's,@PSEUDO_DIR@,/usr/share/espresso/pseudo,; s,@OUTDIR@,out,' "$here/espresso/si8.in" >si8.in
cp "$here/cp2k/h2o-32.inp" "$here"/nwchem/hcno*.nw .
sed 's/0 10 0 10 0 10/0 20 0 20 0 20/' $examples/melt/in.melt >in.melt
cp $examples/peptide/data.peptide .
sed 's/^run.*/run 300/' $examples/peptide/in.peptide >in.peptide
cat >topol.top <<'T'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
T
cat >water.mdp <<'T'
integrator = md
nsteps = 1000
coulombtype = PME
gen_vel = yes
gen_seed = 1
T
{
    gmx solvate -cs spc216.gro -box 2.8 2.8 2.8 -o water.gro -p topol.top
    gmx grompp -f water.mdp -c water.gro -p topol.top -o water.tpr
} >gromacs.log 2>&1
sed -E "s/^[0-9]+( +Ns)/1000\1/; s/^[0-9]+( +Ps)/$((nodes / 2))\1/; s/^[0-9]+( +Qs)/2\1/" \
    /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt

compare() { # name, check or -, program and arguments
    local name=$1 check=$2
    shift 2
    [[ $name =~ $only ]] || return 0
    local options=(--nodes "$nodes" --repeats "$rounds" -x OMP_NUM_THREADS=1 --json "$name.json")
    # Its windows need it on Open MPI 4, and over UCX it does not end then.
    [[ $name != nwchem* ]] || options+=(-x OMPI_MCA_osc=pt2pt --transports "tcp,ofi-tcp,wiglaf")
    [ "$check" = - ] || options+=(--check "$check")
    echo "== $name, $nodes nodes, $rounds rounds"
    "$wiglaf" compare "${options[@]}" -- "$@" >"$name.txt" || { tail -n 20 "$name.txt"; return 1; }
}
compare espresso '!.*energy:1e-6' pw.x -in si8.in
compare cp2k 'ENERGY\| Total.*:1e-8' cp2k.popt -i h2o-32.inp
compare nwchem-scf 'Total SCF energy.*:1e-6' nwchem.openmpi hcno.nw
compare nwchem-ccsd 'CCSD total energy.*:1e-6' nwchem.openmpi hcno-ccsd.nw
compare lammps-melt - lmp -in in.melt -log none
compare lammps-peptide - lmp -in in.peptide -log none
compare gromacs-water - gmx_mpi mdrun -s water.tpr -ntomp 1 -noconfout -nb cpu -pin off
compare hpcc - hpcc
python3 "$here/table.py" ./*.json | tee table.md
