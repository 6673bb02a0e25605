#!/usr/bin/env bash
# What: smooth_gaussian, smooth_n_point, smooth_rectangular and smooth_circular of a field of integers; PyPI MetPy 1.7.1,
#   numpy 2.3.5, scipy 1.16.3.
# Guess: means are no integers: the result is that of the same numbers as floating-point ones, as for metpy.calc.gradient and
#   first_derivative of integers. The documentation: 'the filtered 2D scalar grid', by weights.
# Happens: it has the type of the field, and each value, or each of several passes, is cut to an integer: where the mean is 0.8 it
#   is 0. A mask of zeros and ones with a third of ones becomes one of zeros. Nothing is said, also not with units.
# Who meets it: cloud and rain masks (the share of cloudy points), counts, heights in whole metres, bytes of a picture, and dBZ or
#   Kelvin stored as int16: what is smoothed is half a unit too low, and a whole one after some passes.
# Instead: `field.astype(float)`, or `1.0 * field`, first.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile MetPy==1.7.1 numpy==2.3.5 scipy==1.16.3 \
    pandas==2.3.3 xarray==2025.10.1 Pint==0.25.3
cat >program.py <<'P'
import numpy as np, metpy.calc as calc
from metpy.units import units
rows, columns = np.indices((12, 12))
cloud = ((rows + columns) % 3 == 0).astype(int)              # a third of the points
height = 200 + 10 * rows + (7 * columns) % 5                 # metres
def show(name, function, field):
    same = np.asarray(function(field)), np.asarray(function(field * 1.0))
    inner = (slice(4, -4), slice(4, -4))
    print(f"{name}: mean {same[0][inner].mean():.2f} of {same[0].dtype}, {same[1][inner].mean():.2f} of {same[1].dtype}")
print(f"cloud: mean {cloud.mean():.2f}; height: mean {height.mean():.2f}")
for name, field in ("cloud", cloud), ("height", height * units.m):
    show(f"{name}, smooth_gaussian", lambda x: calc.smooth_gaussian(x, 4), field)
    show(f"{name}, smooth_n_point", lambda x: calc.smooth_n_point(x, 9), field)
    show(f"{name}, smooth_n_point, 4 passes", lambda x: calc.smooth_n_point(x, 9, 4), field)
    show(f"{name}, smooth_rectangular", lambda x: calc.smooth_rectangular(x, 3), field)
    show(f"{name}, smooth_circular", lambda x: calc.smooth_circular(x, 2), field)
print("first_derivative:", np.asarray(calc.first_derivative(cloud[0, :5], delta=1)))
P
v/bin/python program.py | tee out
diff - out <<'P'
cloud: mean 0.33; height: mean 256.83
cloud, smooth_gaussian: mean 0.00 of int64, 0.33 of float64
cloud, smooth_n_point: mean 0.00 of int64, 0.33 of float64
cloud, smooth_n_point, 4 passes: mean 0.00 of int64, 0.33 of float64
cloud, smooth_rectangular: mean 0.00 of int64, 0.33 of float64
cloud, smooth_circular: mean 0.00 of int64, 0.34 of float64
height, smooth_gaussian: mean 256.56 of int64, 257.02 of float64
height, smooth_n_point: mean 256.50 of int64, 256.94 of float64
height, smooth_n_point, 4 passes: mean 256.00 of int64, 256.97 of float64
height, smooth_rectangular: mean 256.44 of int64, 256.83 of float64
height, smooth_circular: mean 256.50 of int64, 256.96 of float64
first_derivative: [-1.5 -0.5  0.5  0.  -2. ]
P
echo "as observed: MetPy smooths integers to integers"
