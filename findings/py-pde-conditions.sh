#!/usr/bin/env bash
# What: two boundary conditions after one another in one program of py-pde; PyPI py-pde 0.59.0, numba 0.68.1, numpy 2.4.6.
# Guess: each equation is solved with its own condition: {'value': NUM} 'enforces a value', {'derivative': DERIV} 'the value for the
#   derivative in the normal direction'.
# Happens: where the kinds differ and the numbers are equal, as 0 and 0, the second equation is solved with the condition of the
#   first: a rod whose ends let nothing through cools down like one whose ends are held at 0. Other grid objects of the same shape,
#   the class PDE and scipy's solver do not help: compiled operators are kept by the numbers, not by the kind. No warning.
# Who meets it: who compares conditions, or has two fields with a condition each, in a notebook or a loop: the order decides.
# Instead: a process for each condition, or backend="numpy"; and a test of what must be kept, as the total.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T MPLCONFIGDIR=$T NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile py-pde==0.59.0 numba==0.68.1 numpy==2.4.6 scipy==1.17.1
cat >program.py <<'P'
import sys
import pde
def total(kind, **options):
    grid = pde.CartesianGrid([[0, 1]], [4], periodic=False)
    rod = pde.ScalarField(grid, [0, 0, 4.0, 0])
    equation = pde.DiffusionPDE(bc={kind: 0})
    return f"{kind} {equation.solve(rod, t_range=0.1, dt=0.001, tracker=None, **options).data.sum():.3f}"
options = {"backend": "numpy"} if sys.argv[1] == "numpy" else {}
print(", then ".join(total(kind, **options) for kind in sys.argv[2:]))
P
{
    for kinds in "value derivative" "derivative value"; do
        # shellcheck disable=SC2086
        echo "total of 4 after a while: $(v/bin/python program.py default $kinds)"
    done
    echo "backend numpy:            $(v/bin/python program.py numpy value derivative)"
} | tee out
diff - out <<'P'
total of 4 after a while: value 1.880, then derivative 1.880
total of 4 after a while: derivative 4.000, then value 4.000
backend numpy:            value 1.880, then derivative 4.000
P
echo "as observed: py-pde solves with the boundary condition of the equation before"
