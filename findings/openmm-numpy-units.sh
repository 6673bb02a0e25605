#!/usr/bin/env bash
# What: NumPy's functions on arrays with units of OpenMM; PyPI OpenMM 8.6.1, numpy 2.4.6.
# Guess: np.subtract(a, b) is a - b, and np.concatenate converts, or there is an error, as a + 1.0 is one.
# Happens: `a - b` converts, but np.subtract, np.maximum, np.concatenate, np.append, np.where, np.dot and np.linalg.norm take
#   the bare numbers: 1 nm and 2 Angstrom are 1 and 2. The result has no unit; given to setPositions, it is in nm. No warning.
# Who meets it: positions of a PDB file (nm) joined by np.concatenate with those of a ligand in Angstrom: ten times as
#   far away. np.allclose(1 nm, 10 Angstrom) is False.
# Instead: x.value_in_unit(unit.nanometer) of each array before, and the unit once at the end.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install OpenMM==8.6.1 numpy==2.4.6
cat >program.py <<'P'
import numpy as np
from openmm import Context, HarmonicBondForce, Platform, System, VerletIntegrator, unit
a, b = np.array([[0.0, 0.0, 0.0]]) * unit.nanometer, np.array([[2.0, 0.0, 0.0]]) * unit.angstrom
c = a + np.array([[1.0, 0.0, 0.0]]) * unit.nanometer
print("c, b:", c, b)
print("c - b:", c - b)
for name in "subtract", "maximum", "allclose": print(f"{name}:", getattr(np, name)(c, b))
print("concatenate:", np.concatenate([a, b]).tolist())
print("norm:", np.linalg.norm(b))
system = System(); system.addParticle(1); system.addParticle(1)
force = HarmonicBondForce(); force.addBond(0, 1, 0.0, 1.0); system.addForce(force)
context = Context(system, VerletIntegrator(0.001), Platform.getPlatformByName("Reference"))
def distance(positions):
    context.setPositions(positions)
    energy = context.getState(getEnergy=True).getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole)
    return f"{(2 * energy)**0.5:.1f} nm"
print("distance, list(a) + list(b):", distance(list(a) + list(b)))
print("distance, np.concatenate([a, b]):", distance(np.concatenate([a, b])))
P
v/bin/python -W error program.py | tee out
diff - out <<'P'
c, b: [[1. 0. 0.]] nm [[2. 0. 0.]] A
c - b: [[0.8 0.  0. ]] nm
subtract: [[-1.  0.  0.]]
maximum: [[2. 0. 0.]]
allclose: False
concatenate: [[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]
norm: 2.0
distance, list(a) + list(b): 0.2 nm
distance, np.concatenate([a, b]): 2.0 nm
P
echo "as observed: NumPy's functions take the bare numbers of quantities of OpenMM"
