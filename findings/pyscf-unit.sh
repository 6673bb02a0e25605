#!/usr/bin/env bash
# What: `unit=` of a molecule in PySCF that is not among the words of its documentation; PyPI pyscf 2.14.0.
# Guess: an error, as for a misspelled argument, basis or functional.
# Happens: whatever does not start with b or au is Angstrom: 'a.u.' and 'atomic', but also 'nm' and 'pm'. The energy
#   converges, with status 0 and without a warning: a molecule given in atomic units is 1.89 times as large.
# Who meets it: coordinates copied from a program that writes 'a.u.' or nm (GROMACS, MDTraj).
# Instead: 'Bohr' or 'Angstrom', and look at mol.atom_coords(), or at the distances in the output of verbose=5.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OMP_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile pyscf==2.14.0 numpy==2.4.6 scipy==1.17.1 h5py==3.16.0
cat >program.py <<'E'
import sys
from pyscf import gto, scf
def compute(distance, unit, **more):
    try:
        molecule = gto.M(atom=f"H 0 0 0; F 0 0 {distance}", basis="sto-3g", unit=unit, verbose=3, output="words", **more)
        calculation = scf.RHF(molecule)
        energy = calculation.kernel()
        molecule.stdout.flush()
        warned = "a warning" if "arn" in open("words").read() else "no warning"
        print(f"{distance} {unit}: {molecule.atom_coords()[1, 2]:.3f} Bohr, {energy:.4f} Hartree, {warned}")
    except Exception as error:
        print(f"{distance} {unit} {more}: {type(error).__name__}")
for unit in "Angstrom", "nm", "pm": compute(0.917, unit)
for unit in "Bohr", "AU", "a.u.", "atomic": compute(1.733, unit)
compute(0.917, "Angstrom", units="a.u.")
E
v/bin/python program.py | grep -v 'output file' | tee out
diff - out <<'E'
0.917 Angstrom: 1.733 Bohr, -98.5708 Hartree, no warning
0.917 nm: 1.733 Bohr, -98.5708 Hartree, no warning
0.917 pm: 1.733 Bohr, -98.5708 Hartree, no warning
1.733 Bohr: 1.733 Bohr, -98.5708 Hartree, no warning
1.733 AU: 1.733 Bohr, -98.5708 Hartree, no warning
1.733 a.u.: 3.275 Bohr, -98.3326 Hartree, no warning
1.733 atomic: 3.275 Bohr, -98.3326 Hartree, no warning
0.917 Angstrom {'units': 'a.u.'}: TypeError
E
echo "as observed: an unknown unit is Angstrom for PySCF"
