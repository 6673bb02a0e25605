#!/usr/bin/env bash
# What: ca.interpolant(name, 'bspline', grid, values) outside its table; casadi 3.8.2 (PyPI).
# Guess: the spline goes on, as 'linear' does with its last piece, or the value at the end stays, or there is an error.
# Happens: 0, for each point outside, in each dimension, and in the derivative too. That counts from the last bit on: the
#   table ends at 3, and 30 steps of 0.1 end at 3.0000000000000013, where a value of 10 is 0. Nothing is said.
# Who meets it: tables of tariffs, engines, winds or drags in a simulation or optimal control: at the last step, or for
#   one trial point of the optimizer, the force or cost is nothing, and nothing is a good cost.
# Instead: limit the argument, f(ca.fmin(ca.fmax(x, first), last)), or a table that is wider than its use.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install casadi==3.8.2 numpy==2.3.5
cd "$T"
cat >program.py <<'P'
import casadi as ca
import numpy as np
grid = np.linspace(0, 3, 7)
x = ca.MX.sym("x")
steps = sum([0.1] * 30)
print("thirty steps of 0.1:", steps)
for kind in "linear", "bspline":
    f = ca.interpolant("f", kind, [grid], grid**2 + 1)
    slope = ca.Function("slope", [x], [ca.jacobian(f(x), x)])
    values = " ".join(f"{float(f(where)):.2f}" for where in (2.9, 3, steps, 3.1, -0.1))
    print(f"{kind}, 1 + x**2 at 2.9, 3, those steps, 3.1, -0.1: {values}; slope at 3.1 {float(slope(3.1)):.2f}")
f = ca.interpolant("f", "bspline", [grid], grid**2 + 1)
limited = [float(f(ca.fmin(ca.fmax(where, 0), 3))) for where in (steps, 3.1, -0.1)]
print("bspline, argument limited to 0 and 3:", *(f"{value:.2f}" for value in limited))
plane = ca.interpolant("plane", "bspline", [grid, grid], (1 + np.add.outer(grid, grid)).ravel(order="F"))
print(f"bspline in two dimensions, 1 + x + y at (1, 3), (1, 3.1): {float(plane([1, 3])):.2f} {float(plane([1, 3.1])):.2f}")
s = ca.nlpsol("s", "ipopt", {"x": x, "f": f(x)}, {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"})
for start in 1.0, 2.9:
    r = s(x0=start)
    x_found, value, good = abs(float(r["x"])), float(r["f"]), s.stats()["success"]
    print(f"minimum of 1 + x**2 from {start}: x {x_found:.1f}, value {value:.1f}, success {good}")
P
"$T/v/bin/python" program.py | tee out
diff - out <<'P'
thirty steps of 0.1: 3.0000000000000013
linear, 1 + x**2 at 2.9, 3, those steps, 3.1, -0.1: 9.45 10.00 10.00 10.55 0.95; slope at 3.1 5.50
bspline, 1 + x**2 at 2.9, 3, those steps, 3.1, -0.1: 9.41 10.00 0.00 0.00 0.00; slope at 3.1 0.00
bspline, argument limited to 0 and 3: 10.00 10.00 1.00
bspline in two dimensions, 1 + x + y at (1, 3), (1, 3.1): 5.00 0.00
minimum of 1 + x**2 from 1.0: x 0.0, value 0.0, success True
minimum of 1 + x**2 from 2.9: x 0.0, value 0.0, success True
P
echo "as observed: outside of its table a spline is 0"
