#!/usr/bin/env bash
# What: joblib.Memory with quantities of astropy and unyt, and masked 8-bit integers; PyPI joblib 1.6.0, numpy
#   2.4.6, astropy 8.0.2, unyt 3.2.0.
# Guess: 1 m and 1 km are two arguments, for the cache is keyed by what the arguments are: their values, types and
#   shapes.
# Happens: of a subclass of numpy.ndarray only class, type, shape and bytes are hashed. The unit and the mask are not:
#   the result for 1 m is returned for 1 km. Other numbers are computed anew, so that it works in trials.
# Who meets it: who caches an expensive function and calls it with quantities, as astronomers do; yt's arrays are
#   unyt's. The cache is on disk, and returns the wrong result in later programs as well.
# Instead: x.to_value("m") before the cached function, or the unit as an argument of its own; x.filled() and the mask.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
export HOME=$T
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install joblib==1.6.0 numpy==2.4.6 astropy==8.0.2 unyt==3.2.0
cat >program.py <<'P'
import joblib, numpy as np, unyt
from astropy import units
memory = joblib.Memory("cache", verbose=0)
@memory.cache
def travel_time(distance): return distance / type(distance)(299792458.0, "m/s")
@memory.cache
def mean(values): return values.mean()
for name, quantity in ("astropy", units.Quantity), ("unyt", unyt.unyt_quantity):
    for unit in "m", "km":
        x = quantity(1.0, unit)
        print(f"{name}: {x} takes {travel_time(x).to('ns'):.3f}, without a cache {travel_time.func(x).to('ns'):.3f}")
pixels = np.array([10, 20, 90], np.uint8)
for mask in [0, 0, 0], [0, 0, 1]:
    x = np.ma.array(pixels, mask=mask)
    print(f"mean of {x}: {mean(x):.0f}, without a cache {mean.func(x):.0f}")
P
v/bin/python program.py | tee out
diff - out <<'P'
astropy: 1.0 m takes 3.336 ns, without a cache 3.336 ns
astropy: 1.0 km takes 3.336 ns, without a cache 3335.641 ns
unyt: 1.0 m takes 3.336 ns, without a cache 3.336 ns
unyt: 1.0 km takes 3.336 ns, without a cache 3335.641 ns
mean of [10 20 90]: 40, without a cache 40
mean of [10 20 --]: 40, without a cache 15
P
echo "as observed: units and masks are no part of the key of joblib's cache"
