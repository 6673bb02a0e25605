#!/usr/bin/env bash
# What: the output argument of NumPy functions in a Pythran kernel; PyPI pythran 0.19.0, numpy 2.4.6.
# Guess: np.add(a, b, out) and out=... store the result, as in NumPy, or the compiler refuses them.
# Happens: they compile without a warning, and the array is left as it was: the call does nothing. np.copyto and
#   slices that are assigned are right.
# Who meets it: kernels that were written for speed in NumPy, where `out` saves the temporary array, and that are then
#   compiled: the field is not updated, or holds zeros.
# Instead: `b[:] = a + 1` in kernels, and a comparison with the kernel that is not compiled.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install pythran==0.19.0 numpy==2.4.6
cat >kernel.py <<'E'
#pythran export third(float64[], float64[])
#pythran export keyword(float64[], float64[])
#pythran export part(float64[], float64[])
#pythran export root(float64[], float64[])
#pythran export cumsum(float64[], float64[])
#pythran export assigned(float64[], float64[])
import numpy as np
def third(a, b): np.add(a, 1.0, b)
def keyword(a, b): np.add(a, 1.0, out=b)
def part(a, b): np.multiply(a[1:], a[:-1], b[1:])
def root(a, b): np.sqrt(a, b)
def cumsum(a, b): np.cumsum(a, out=b)
def assigned(a, b): b[:] = a + 1.0
E
PATH=$T/v/bin:$PATH v/bin/pythran kernel.py -o compiled.so 2>words || { cat words; exit 1; }
! grep -i warning words
cat >program.py <<'E'
import numpy as np, kernel, compiled
for name in "third", "keyword", "part", "root", "cumsum", "assigned":
    for how in kernel, compiled:
        b = np.zeros(3)
        getattr(how, name)(np.array([4.0, 1.0, 9.0]), b)
        print(f"{name:8} {how.__name__:8} {b}")
E
v/bin/python program.py | tee out
diff - out <<'E'
third    kernel   [ 5.  2. 10.]
third    compiled [0. 0. 0.]
keyword  kernel   [ 5.  2. 10.]
keyword  compiled [0. 0. 0.]
part     kernel   [0. 4. 9.]
part     compiled [0. 0. 0.]
root     kernel   [2. 1. 3.]
root     compiled [0. 0. 0.]
cumsum   kernel   [ 4.  5. 14.]
cumsum   compiled [0. 0. 0.]
assigned kernel   [ 5.  2. 10.]
assigned compiled [ 5.  2. 10.]
E
echo "as observed: Pythran compiles output arguments of NumPy functions to nothing"
