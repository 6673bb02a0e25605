#!/usr/bin/env bash
# What: boundary conditions of two kinds in one program of py-pde; PyPI py-pde 0.59.0, numba 0.68.1, numpy 2.4.6.
# Guess: each field has its own condition: {'value': NUM} is to 'enforce a value NUM', and {'derivative': DERIV} 'the value DERIV for
#   the derivative in the normal direction'.
# Happens: where the kinds differ and the numbers are equal, as 0 and 0, the second condition is replaced by the first: a rod whose
#   ends let nothing through cools down like one whose ends are held at 0. So it is for two equations after one another, with grids
#   of their own, too, and for two fields of one equation with bc_ops: compiled operators are kept by the numbers, not by the
#   kind. No warning.
# Who meets it: who compares conditions, in a notebook or a loop, and models of temperature and concentration: the order decides (closed, then held: 4).
# Instead: numbers that differ, {'derivative': 1e-12}, and a test of what must be kept, as the total; or a process for each.
#   backend="numpy" helps for equations after one another, not for two fields.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T MPLCONFIGDIR=$T NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile py-pde==0.59.0 numba==0.68.1 numpy==2.4.6 scipy==1.17.1
cat >program.py <<'P'
import sys
import pde
conditions = {"held": {"value": 0}, "closed": {"derivative": 0}, "nearly-closed": {"derivative": 1e-12}}
how, kinds = sys.argv[1], sys.argv[2:]
options = {"t_range": 0.1, "dt": 0.001, "tracker": None} | ({"backend": "numpy"} if how == "numpy" else {})
def rod():
    return pde.ScalarField(pde.CartesianGrid([[0, 1]], [4], periodic=False), [0, 0, 4.0, 0])
if how == "fields":
    equation = pde.PDE({name: f"laplace({name})" for name in "ab"},
                       bc_ops={f"{name}:laplace": conditions[kind] for name, kind in zip("ab", kinds)})
    start = rod()
    ends = equation.solve(pde.FieldCollection([start.copy(), start.copy()]), **options)
else:
    ends = [pde.DiffusionPDE(bc=conditions[kind]).solve(rod(), **options) for kind in kinds]
print(f"{how}:", ", ".join(f"{kind} {end.data.sum():.2f}" for kind, end in zip(kinds, ends)))
P
{
    echo "what is left of 4 in a rod whose ends are held at 0, or closed"
    v/bin/python program.py equations held closed
    v/bin/python program.py fields held closed
    v/bin/python program.py fields held nearly-closed
    v/bin/python program.py numpy held closed
} | tee out
diff - out <<'P'
what is left of 4 in a rod whose ends are held at 0, or closed
equations: held 1.88, closed 1.88
fields: held 1.88, closed 1.88
fields: held 1.88, nearly-closed 4.00
numpy: held 1.88, closed 4.00
P
echo "as observed: py-pde takes the boundary condition that came before"
