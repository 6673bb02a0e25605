# Sourced by the scripts beside it: the programs of Debian that they run, with their inputs, in the new folder $out for $nodes nodes.
# each FUNCTION calls it for every program whose name matches $only, as: name, what to check or -, program and arguments.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
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

each() { # function
    one() { [[ ! $2 =~ $only ]] || "$@"; }
    one "$1" espresso '!.*energy:1e-6' pw.x -in si8.in
    one "$1" cp2k 'ENERGY\| Total.*:1e-8' cp2k.popt -i h2o-32.inp
    one "$1" nwchem-scf 'Total SCF energy.*:1e-6' nwchem.openmpi hcno.nw
    one "$1" nwchem-ccsd 'CCSD total energy.*:1e-6' nwchem.openmpi hcno-ccsd.nw
    one "$1" lammps-melt - lmp -in in.melt -log none
    one "$1" lammps-peptide - lmp -in in.peptide -log none
    one "$1" gromacs-water - gmx_mpi mdrun -s water.tpr -ntomp 1 -noconfout -nb cpu -pin off
    one "$1" hpcc - hpcc
}
