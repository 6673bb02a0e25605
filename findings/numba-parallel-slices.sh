#!/usr/bin/env bash
# What: in-place updates of shifted slices under @njit(parallel=True); PyPI numba 0.68.1, numpy 2.4.6.
# Guess: as in NumPy, and as in @njit: the right-hand side is computed first. parallel=True is said to parallelize array
#   expressions 'automatically', and its restrictions concern prange.
# Happens: right-hand side and update become one parallel loop over the elements, though both are parts of one array:
#   neighbours that are already new are used. `u[1:-1] += c * (u[2:] - 2 * u[1:-1] + u[:-2])` is another scheme, a shift
#   copies the first element everywhere, `u[:] = u[::-1]` makes a palindrome. No warning. `u[1:-1] = u[1:-1] + ...` is right.
# Who meets it: explicit time steps of stencils, for which parallel=True is switched on; the result looks smooth.
# Instead: a second array for the new values, or `u[1:-1] = u[1:-1] + ...`; compare with the function's .py_func.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install numba==0.68.1 numpy==2.4.6
cat >program.py <<'P'
import numpy as np
from numba import njit
def step(u): u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
def step_assigned(u): u[1:-1] = u[1:-1] + 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])
def shift(u): u[1:] = u[:-1]
def reverse(u): u[:] = u[::-1]
for function in step, step_assigned, shift, reverse:
    print(function.__name__)
    for name, f in ("numpy", function), ("njit", njit(function)), ("parallel", njit(parallel=True)(function)):
        u = np.array([64.0, 0, 0, 16, 0, 0, 32])
        f(u)
        print(f"{name:9}", u)
P
NUMBA_NUM_THREADS=1 v/bin/python -W ignore program.py | tee out
diff - out <<'P'
step
numpy     [64. 16.  4.  8.  4.  8. 32.]
njit      [64. 16.  4.  8.  4.  8. 32.]
parallel  [64. 16.  4.  8.  4.  9. 32.]
step_assigned
numpy     [64. 16.  4.  8.  4.  8. 32.]
njit      [64. 16.  4.  8.  4.  8. 32.]
parallel  [64. 16.  4.  8.  4.  8. 32.]
shift
numpy     [64. 64.  0.  0. 16.  0.  0.]
njit      [64. 64.  0.  0. 16.  0.  0.]
parallel  [64. 64. 64. 64. 64. 64. 64.]
reverse
numpy     [32.  0.  0. 16.  0.  0. 64.]
njit      [32.  0.  0. 16.  0.  0. 64.]
parallel  [32.  0.  0. 16.  0.  0. 32.]
P
echo "as observed: parallel=True updates shifted slices with values that are already new"
