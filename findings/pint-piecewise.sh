#!/usr/bin/env bash
# What: np.piecewise and np.full with quantities of Pint; PyPI Pint 0.25.3, numpy 2.4.6.
# Guess: the unit is kept, or there is an error, or Pint's warning that a unit is stripped, as for other functions.
# Happens: np.piecewise puts 1 km and 2 m into one array as 1 and 2, and np.full(3, 2 km) is 2, 2, 2. No unit, no warning.
#   np.where and np.concatenate convert.
# Who meets it: a property with two ranges (`np.piecewise(x, [x < x0, x >= x0], [a, b])`), and first values of a field.
# Instead: np.where, and Quantity(np.full(3, 2), "km").
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install Pint==0.25.3 numpy==2.4.6
cat >program.py <<'P'
import numpy as np, pint, warnings
Q = pint.UnitRegistry().Quantity
first = np.array([True, False])
array = np.zeros(2)
def show(name, function):
    with warnings.catch_warnings(record=True) as list_:
        warnings.simplefilter("always")
        value = function()
    print(f"{name}: {value}" + (", a warning" if list_ else ""))
show("where", lambda: np.where(first, Q(1.0, "km"), Q(2.0, "m")))
show("concatenate", lambda: np.concatenate([Q([1.0], "km"), Q([2.0], "m")]))
show("vectorize", lambda: np.vectorize(lambda x: x)(Q([1.0], "km")))
show("piecewise", lambda: np.piecewise(array, [first, ~first], [Q(1.0, "km"), Q(2.0, "m")]))
show("full", lambda: np.full(3, Q(2.0, "km")))
P
v/bin/python program.py 2>&1 | tee out
diff - out <<'P'
where: [1.0 0.002] kilometer
concatenate: [1.0 0.002] kilometer
vectorize: [1.], a warning
piecewise: [1. 2.]
full: [2. 2. 2.]
P
echo "as observed: np.piecewise mixes kilometres and metres of Pint"
