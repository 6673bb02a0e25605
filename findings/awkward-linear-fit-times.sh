#!/usr/bin/env bash
# What: ak.linear_fit over times as Unix seconds; PyPI awkward 2.14.0, numpy 2.4.6.
# Guess: the slope of y = 2 t + 1, as Polynomial.fit of numpy finds it: ak.linear_fit 'computes the linear fit of y with
#   respect to x'.
# Happens: for t from 0 to 9 it is 2. For 1704448800 to 1704448809, ten seconds of 2024, it is 0.05 with axis=-1, and
#   infinite without an axis, and nothing is said. Sums of squares are subtracted, of which no digit is left. ak.var and
#   ak.covar of the same numbers are right.
# Who meets it: drifts and rates by channel or run, over times of a clock, or any x whose spread is far less than its size.
# Instead: subtract the first or mean x: ak.linear_fit(x - ak.mean(x, axis=-1), y, axis=-1).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install awkward==2.14.0 numpy==2.4.6
cat >"$T/program.py" <<'P'
import sys
import warnings
import awkward as ak
import numpy as np
warnings.simplefilter("error")      # a warning would end the program
for start in 0, 1_000_000, 1_704_448_800:
    t = start + np.arange(10.0)
    y = 2 * (t - start) + 1
    x, z = ak.Array([t, t]), ak.Array([y, y])
    centred = x - ak.mean(x, axis=-1)
    print("t from", start)
    for name, slope in (
        ("ak.linear_fit, axis=-1", ak.linear_fit(x, z, axis=-1)[0].slope),
        ("ak.linear_fit, axis=None", ak.linear_fit(x[0], z[0]).slope),
        ("ak.linear_fit of t - mean", ak.linear_fit(centred, z, axis=-1)[0].slope),
        ("ak.covar / ak.var", ak.covar(x, z, axis=-1)[0] / ak.var(x, axis=-1)[0]),
        ("Polynomial.fit of numpy", np.polynomial.Polynomial.fit(t, y, 1).convert().coef[1]),
    ):
        print(f"  {name}:", "right, 2.00" if abs(slope - 2) < 0.001 else "wrong")
        print(f"  {name}: {slope:.6g}", file=sys.stderr)
P
"$T/v/bin/python" "$T/program.py" >"$T/out" 2>"$T/slopes"
cat "$T/slopes"
diff - "$T/out" <<'P'
t from 0
  ak.linear_fit, axis=-1: right, 2.00
  ak.linear_fit, axis=None: right, 2.00
  ak.linear_fit of t - mean: right, 2.00
  ak.covar / ak.var: right, 2.00
  Polynomial.fit of numpy: right, 2.00
t from 1000000
  ak.linear_fit, axis=-1: right, 2.00
  ak.linear_fit, axis=None: right, 2.00
  ak.linear_fit of t - mean: right, 2.00
  ak.covar / ak.var: right, 2.00
  Polynomial.fit of numpy: right, 2.00
t from 1704448800
  ak.linear_fit, axis=-1: wrong
  ak.linear_fit, axis=None: wrong
  ak.linear_fit of t - mean: right, 2.00
  ak.covar / ak.var: right, 2.00
  Polynomial.fit of numpy: right, 2.00
P
echo "as observed: the slope over Unix seconds is wrong"
