#!/usr/bin/env bash
# What: is_shift=[0.5, 0.5, 0.5] and kinds of atoms that are not whole numbers in spglib; PyPI spglib 2.8.0.
# Guess: 0.5 is the half of a step by which the mesh is shifted, or an error as for a mesh of 4.5; kinds 26.1 and 26.2 are two,
#   or an error.
# Happens: fractions are cut off, and nothing is said. A shift of 0.5 is none: the mesh of k-points has its points elsewhere
#   (10 irreducible ones, as for 0, not 4 as for 1). The kinds 26.1 and 26.2 are both 26: the space group is that of one kind.
# Who meets it: the shift as VASP or pymatgen write it; two sublattices (spin up and down, isotopes) told apart by a decimal.
# Instead: is_shift=[1, 1, 1]; kinds 1 and 2.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile spglib==2.8.0 numpy==2.4.6
cat >program.py <<'E'
import warnings, numpy as np, spglib
lattice, positions = np.eye(3) * 4, [[0, 0, 0], [0.5, 0.5, 0.5]]
def show(label, function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try: result = function()
        except Exception as error: result = type(error).__name__
    caught = [w for w in caught if w.category is not DeprecationWarning]
    print(f"{label}: {result}", *(f"({w.category.__name__}: {w.message})" for w in caught))
def mesh(shift, size=4):
    return len(set(spglib.get_ir_reciprocal_mesh([size] * 3, (lattice, positions, [1, 2]), is_shift=shift)[0]))
for shift in [0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [True, True, True]:
    show(f"is_shift={shift}, irreducible points", lambda: mesh(shift))
show("mesh of 4.5", lambda: mesh([0, 0, 0], 4.5))
for kinds in [26, 26], [26, 27], [26.1, 26.2], [0.4, -0.4]:
    show(f"kinds {kinds}", lambda: spglib.get_spacegroup((lattice, positions, kinds)))
E
v/bin/python program.py | tee out
diff - out <<'E'
is_shift=[0, 0, 0], irreducible points: 10
is_shift=[1, 1, 1], irreducible points: 4
is_shift=[0.5, 0.5, 0.5], irreducible points: 10
is_shift=[True, True, True], irreducible points: 4
mesh of 4.5: TypeError
kinds [26, 26]: Im-3m (229)
kinds [26, 27]: Pm-3m (221)
kinds [26.1, 26.2]: Im-3m (229)
kinds [0.4, -0.4]: Im-3m (229)
E
echo "as observed: spglib cuts off fractions of shifts and kinds"
