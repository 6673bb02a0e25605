#!/usr/bin/env bash
# What: iris.save with packing="i2" for a cube with masked points; PyPI scitools-iris 3.14.1, netCDF4 1.7.5.1.post1.
# Guess: what is masked stays so, and the other values come back but for rounding: scale and offset are made with 'possible
#   masking' in mind, by the manual.
# Happens: with any masked point the smallest value of the cube is masked, too, for it is packed as -32767, netCDF's default fill
#   value for these integers. Nothing is said. With packing="u2", as without a mask, all are right here.
# Who meets it: fields over land or sea alone, packed to save space: the coldest, driest or deepest point is lost, all places with
#   that value (all zeros of a field of rain), and nothing but the mask tells.
# Instead: fill_value=-32768 beside the packing; or zlib=True without packing.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T MPLCONFIGDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile scitools-iris==3.14.1 netCDF4==1.7.5.1.post1 numpy==2.4.6
cat >program.py <<'P'
import warnings
import iris, numpy as np
from iris.cube import Cube
rain = np.array([0.0, 0, 0, 5, 20, 8])
def show(name, values, **options):
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        iris.save(Cube(values, var_name="rain"), "rain.nc", **options)
        data = iris.load_cube("rain.nc").data
    text = " ".join("--" if value is np.ma.masked else f"{value:.1f}" for value in np.ma.masked_array(data))
    print(f"{name} {options}: {text}, {len([w for w in words if 'Deprecation' not in w.category.__name__])} warnings")
show("whole", rain, packing="i2")
masked = np.ma.masked_equal(rain, 8)
show("masked", masked)
show("masked", masked, packing="i2")
show("masked", masked, packing="i2", fill_value=-32768)
show("masked", masked, packing="u2")
P
v/bin/python program.py 2>words | tee out
diff - out <<'P'
whole {'packing': 'i2'}: 0.0 0.0 0.0 5.0 20.0 8.0, 0 warnings
masked {}: 0.0 0.0 0.0 5.0 20.0 --, 0 warnings
masked {'packing': 'i2'}: -- -- -- 5.0 20.0 --, 0 warnings
masked {'packing': 'i2', 'fill_value': -32768}: 0.0 0.0 0.0 5.0 20.0 --, 0 warnings
masked {'packing': 'u2'}: 0.0 0.0 0.0 5.0 20.0 --, 0 warnings
P
echo "as observed: packed with a mask, the smallest value is masked"
