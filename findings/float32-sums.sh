#!/usr/bin/env bash
# What: sums and means of float32 arrays with NumExpr, Numba and Pythran; PyPI numexpr 2.14.2, numba 0.68.1,
#   pythran 0.19.0, numpy 2.4.6.
# Guess: 20000000 ones have the sum 2e7 and the mean 1, as in NumPy, which adds in pairs.
# Happens: all three add one element after another in float32, which ends at 2^24: the sum is 16777216 and the mean of ones
#   0.84; the mean of a million numbers between 280 and 281 is 284. Numba's parallel=True is right.
# Who meets it: fields of climate or image data, which are float32: a kernel that is compiled to be faster has another
#   mean, of which the first digits look right.
# Instead: a.astype(np.float64) in kernels; 'sum(a * d)' with d a double 1.0 in NumExpr; or np.sum outside.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install numexpr==2.14.2 numba==0.68.1 pythran==0.19.0 numpy==2.4.6
cat >kernel.py <<'E'
#pythran export total(float32[])
#pythran export mean(float32[])
import numpy as np
def total(a): return np.sum(a)
def mean(a): return np.mean(a)
E
PATH=$T/v/bin:$PATH v/bin/pythran kernel.py -o compiled.so 2>words || { cat words; exit 1; }
cat >program.py <<'E'
import numpy as np, numexpr, kernel, compiled
from numba import njit
a = np.ones(20_000_000, np.float32)
def show(name, total, mean): print(f"{name:15} sum {float(total):.0f}, mean {float(mean):.4f}")
show("numpy", kernel.total(a), kernel.mean(a))
total = numexpr.evaluate("sum(a)")
show("numexpr " + str(total.dtype), total, total / a.size)
total = numexpr.evaluate("sum(a * d)", dict(a=a, d=1.0))
show("  of doubles", total, total / a.size)
show("njit", njit(kernel.total)(a), njit(kernel.mean)(a))
parallel = njit(parallel=True)
show("  parallel", parallel(kernel.total)(a), parallel(kernel.mean)(a))
show("pythran", compiled.total(a), compiled.mean(a))
rng = np.random.default_rng(1)
a = rng.random(1_000_000, np.float32) + np.float32(280)
print(f"temperatures: numpy {kernel.mean(a):.2f}, njit {njit(kernel.mean)(a):.2f}, pythran {compiled.mean(a):.2f}")
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
numpy           sum 20000000, mean 1.0000
numexpr float32 sum 16777216, mean 0.8389
  of doubles    sum 20000000, mean 1.0000
njit            sum 16777216, mean 0.8389
  parallel      sum 20000000, mean 1.0000
pythran         sum 16777216, mean 0.8389
temperatures: numpy 280.50, njit 284.20, pythran 284.20
E
echo "as observed: NumExpr, Numba and Pythran add float32 one after another, in float32"
