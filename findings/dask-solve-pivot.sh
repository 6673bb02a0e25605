#!/usr/bin/env bash
# What: dask.array.linalg.solve and inv of matrices in several chunks; PyPI dask 2026.8.0, numpy 2.4.6, scipy 1.17.1.
# Guess: as good as NumPy's. The documentation: 'use LU decomposition', and da.linalg.lu returns a permutation.
# Happens: rows are exchanged inside a block of the diagonal only, never between chunks. Where that block is small or
#   nearly singular, the digits are lost: for a saddle point problem of condition 3e4 NumPy has 11 right digits and dask
#   none, without a warning; where the block is 0 there is an error. In one chunk the result is right.
# Who meets it: constrained problems (mixed finite elements, least squares with multipliers), whose zero or nearly zero
#   block comes first, and which are divided into chunks because they are large.
# Instead: put the large block first, or one chunk; and look at the residual `abs(A @ x - b).max()`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install dask==2026.8.0 numpy==2.4.6 scipy==1.17.1
cat >program.py <<'E'
import numpy as np, dask.array as da
n = 100
B = np.random.default_rng(1).standard_normal((n, n))
def digits(error): return "10 digits" if error < 1e-10 else "no digits" if error > 1e-3 else "a few digits"
for small in 1.0, 1e-12, 0.0:
    A = np.block([[small * np.eye(n), B], [B.T, np.eye(n)]])
    x = np.ones(2 * n)
    print(f"first block {small:g}: numpy {digits(abs(np.linalg.solve(A, A @ x) - x).max())}", end="")
    for chunk in 2 * n, n:
        a, b = da.from_array(A, chunks=chunk), da.from_array(A @ x, chunks=chunk)
        try:
            solved = digits(abs(da.linalg.solve(a, b).compute() - x).max())
            inverse = digits(abs(da.linalg.inv(a).compute() @ A - np.eye(2 * n)).max())
        except Exception as error:
            solved = inverse = type(error).__name__
        print(f"; {2 * n // chunk} x {2 * n // chunk} chunks: solve {solved}, inv {inverse}", end="")
    print()
E
OPENBLAS_NUM_THREADS=1 v/bin/python program.py | tee out
diff - out <<'E'
first block 1: numpy 10 digits; 1 x 1 chunks: solve 10 digits, inv 10 digits; 2 x 2 chunks: solve 10 digits, inv 10 digits
first block 1e-12: numpy 10 digits; 1 x 1 chunks: solve 10 digits, inv 10 digits; 2 x 2 chunks: solve no digits, inv no digits
first block 0: numpy 10 digits; 1 x 1 chunks: solve 10 digits, inv 10 digits; 2 x 2 chunks: solve LinAlgError, inv LinAlgError
E
echo "as observed: dask's solve and inv exchange no rows between chunks"
