#!/usr/bin/env bash
# What: values on the boundary that are integers in solve(*condense(...)); PyPI scikit-fem 12.0.2, numpy 2.4.6, scipy 1.17.1.
# Guess: they are numbers like others: the temperature between sides at 0 and 100 has a mean of 50 and ends at 0 and 100.
# Happens: the solution is written into a copy of the boundary's array, of its type: integers cut each value (0.07 is 0),
#   booleans make each 1, float32 leaves 7 digits. Nothing is said. enforce() and penalize() of the same array are right.
# Who meets it: `x = np.zeros(basis.N, dtype=int)`, `x = 100 * (m.p[0] == 1)`, or np.where(..., 100, 0): all are integers.
# Instead: `x = basis.zeros()` and then `x[dofs] = 100`, or `.astype(float)`; or enforce().
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install scikit-fem==12.0.2 numpy==2.4.6 scipy==1.17.1
cat >program.py <<'E'
import numpy as np
from skfem import Basis, ElementTriP1, MeshTri, condense, enforce, solve
from skfem.models.poisson import laplace, unit_load
basis = Basis(MeshTri().refined(3), ElementTriP1())
K, f = laplace.assemble(basis), unit_load.assemble(basis)
place = basis.mesh.p[0]
sides = basis.get_dofs(lambda x: (x[0] == 0) | (x[0] == 1))
for name, x in (("100.0 * (p == 1)", 100.0 * (place == 1)), ("100 * (p == 1)", 100 * (place == 1)), ("p == 1", place == 1)):
    for method in condense, enforce:
        u = solve(*method(K, 0 * f, x=x, D=sides))
        print(f"{name}, {method.__name__}: {u.dtype}, mean {u.mean():.2f}")
for kind in float, "f4", int:
    u = solve(*condense(K, f, x=np.zeros(basis.N, kind), D=basis.get_dofs()))
    print(f"load 1, zeros of {u.dtype}, condense: maximum {u.max():.4f}")
E
v/bin/python program.py | tee out
diff - out <<'E'
100.0 * (p == 1), condense: float64, mean 50.00
100.0 * (p == 1), enforce: float64, mean 50.00
100 * (p == 1), condense: int64, mean 49.75
100 * (p == 1), enforce: float64, mean 50.00
p == 1, condense: bool, mean 0.89
p == 1, enforce: float64, mean 0.50
load 1, zeros of float64, condense: maximum 0.0728
load 1, zeros of float32, condense: maximum 0.0728
load 1, zeros of int64, condense: maximum 0.0000
E
echo "as observed: condense() cuts the solution to the type of the boundary's values"
