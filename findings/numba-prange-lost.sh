#!/usr/bin/env bash
# What: results of a prange loop that are not written with `+=` or max(); PyPI numba 0.68.1, numpy 2.4.6.
# Guess: a race, or an error that this is no reduction ('Reductions are inferred'), as there is for other forms.
# Happens: the variable keeps its value from before the loop, whatever the number of threads, with no warning: the loop ran
#   on copies. `if a[k] > m: m = a[k]` gives 0, and `s = s + array` gives zeros, where `m = max(m, a[k])`, `s += array`
#   and, for a number, `s = s + a[k]` are right.
# Who meets it: the largest residual or the best index of a sweep: with @njit alone it is right; parallel=True makes it 0,
#   which is below each tolerance.
# Instead: max() and min(), `+=`; for an index an array with one entry for each iteration, and np.argmax after the loop.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install numba==0.68.1 numpy==2.4.6
cat >program.py <<'E'
import numpy as np
from numba import njit, prange
def largest_if(a):
    m = 0.0
    for k in prange(len(a)):
        if a[k] > m: m = a[k]
    return m
def largest_max(a):
    m = 0.0
    for k in prange(len(a)): m = max(m, a[k])
    return m
def number_assigned(a):
    s = 0.0
    for k in prange(len(a)): s = s + a[k]
    return s
def array_assigned(a):
    s = np.zeros(2)
    for k in prange(len(a)): s = s + np.array([1.0, a[k]])
    return s
def array_inplace(a):
    s = np.zeros(2)
    for k in prange(len(a)): s += np.array([1.0, a[k]])
    return s
for f in largest_if, largest_max, number_assigned, array_assigned, array_inplace:
    a = np.arange(1.0, 9.0)
    print(f"{f.__name__:15} python {f(a)}, njit {njit(f)(a)}, parallel {njit(parallel=True)(f)(a)}")
E
for threads in 1 2; do NUMBA_NUM_THREADS=$threads v/bin/python -W error program.py; done | tee out
diff - out <<'E'
largest_if      python 8.0, njit 8.0, parallel 0.0
largest_max     python 8.0, njit 8.0, parallel 8.0
number_assigned python 36.0, njit 36.0, parallel 36.0
array_assigned  python [ 8. 36.], njit [ 8. 36.], parallel [0. 0.]
array_inplace   python [ 8. 36.], njit [ 8. 36.], parallel [ 8. 36.]
largest_if      python 8.0, njit 8.0, parallel 0.0
largest_max     python 8.0, njit 8.0, parallel 8.0
number_assigned python 36.0, njit 36.0, parallel 36.0
array_assigned  python [ 8. 36.], njit [ 8. 36.], parallel [0. 0.]
array_inplace   python [ 8. 36.], njit [ 8. 36.], parallel [ 8. 36.]
E
echo "as observed: a maximum by 'if' and a sum of arrays by '=' are lost in prange"
