#!/usr/bin/env bash
# What: max, argmax and sign of an array with a NaN, compiled; PyPI numexpr 2.14.2, numba 0.68.1, pythran 0.19.0,
#   numpy 2.4.6.
# Guess: NaN, as with NumPy, which these tools compile: the documentation of each speaks of NumPy's functions.
# Happens: NumExpr, Pythran and Numba with parallel=True leave the NaN out: the maximum is that of the other elements.
#   Numba without parallel=True has NaN, so that the option changes the result. Pythran's np.sign(NaN) is 1, and its
#   np.unique loses numbers where the NaN is first.
# Who meets it: loops that stop at `abs(residual).max() < tolerance`, and tests for a run that has diverged: with one NaN
#   in the field the largest residual is small.
# Instead: test `np.isnan(a).any()`, or a sum, which is NaN in all of them.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install numexpr==2.14.2 numba==0.68.1 pythran==0.19.0 numpy==2.4.6
cat >kernel.py <<'E'
#pythran export largest(float64[])
#pythran export place(float64[])
#pythran export sign(float64[])
#pythran export unique(float64[])
#pythran export total(float64[])
import numpy as np
def largest(a): return np.max(a)
def place(a): return np.argmax(a)
def sign(a): return np.sign(a)
def unique(a): return np.unique(a)
def total(a): return np.sum(a)
E
PATH=$T/v/bin:$PATH v/bin/pythran kernel.py -o compiled.so 2>words || { cat words; exit 1; }
cat >program.py <<'E'
import numpy as np, numexpr, kernel, compiled
from numba import njit
a = np.array([np.nan, 0.25, 0.5])
def show(name, *results): print(f"{name:10}", *results)
for name in "largest", "place", "sign", "unique", "total":
    print(name)
    f = getattr(kernel, name)
    show(" numpy", f(a)); show(" njit", njit(f)(a)); show(" parallel", njit(parallel=True)(f)(a))
    show(" pythran", getattr(compiled, name)(a))
    if name in ("largest", "total"):
        show(" numexpr", numexpr.evaluate("max(a)" if name == "largest" else "sum(a)"))
E
NUMBA_NUM_THREADS=1 v/bin/python -W ignore program.py | tee out
diff - out <<'E'
largest
 numpy     nan
 njit      nan
 parallel  0.5
 pythran   0.5
 numexpr   0.5
place
 numpy     0
 njit      0
 parallel  0
 pythran   2
sign
 numpy     [nan  1.  1.]
 njit      [nan  1.  1.]
 parallel  [nan  1.  1.]
 pythran   [1. 1. 1.]
unique
 numpy     [0.25 0.5   nan]
 njit      [0.25 0.5   nan]
 parallel  [0.25 0.5   nan]
 pythran   [nan]
total
 numpy     nan
 njit      nan
 parallel  nan
 pythran   nan
 numexpr   nan
E
echo "as observed: a NaN is no maximum for NumExpr, Pythran and Numba's parallel=True"
