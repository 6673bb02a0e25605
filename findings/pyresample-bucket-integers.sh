#!/usr/bin/env bash
# What: averages of integers by pyresample's BucketResampler; PyPI pyresample 1.35.0, dask 2026.8.0, numpy 2.4.6.
# Guess: 25 pixels of 200 have an average of 200 and a sum of 5000, whatever their type.
# Happens: the sum of each chunk of dask is cast to the data's type: for bytes the average is 5.44 in one chunk and 25.92 in
#   chunks of 5 x 5, for int16 counts of 30000 it is 1164.16, and nothing is said. It is right for float32, and also with
#   `fill_value=0`, because the data become float then. get_max is right.
# Who meets it: images of satellites and radars are bytes or int16, and are brought to a coarser grid.
# Instead: data.astype(float) before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile pyresample==1.35.0 dask==2026.8.0 numpy==2.4.6 xarray==2026.9.0 pyproj==3.7.2
cat >program.py <<'P'
import warnings
import dask.array as da
import numpy as np
from pyresample.bucket import BucketResampler
from pyresample.geometry import AreaDefinition
longitudes, latitudes = np.meshgrid(np.arange(10) + 0.5, np.arange(10) + 0.5)
area = AreaDefinition("a", "a", "a", {"proj": "longlat", "datum": "WGS84"}, 2, 2, (0, 0, 10, 10))      # each has 5 x 5 pixels
for type, value in ("float32", 200), ("uint8", 200), ("float32", 30000), ("int16", 30000):
    for size in 10, 5:
        resampler = BucketResampler(area, da.from_array(longitudes, chunks=size), da.from_array(latitudes, chunks=size))
        data = da.full((10, 10), value, dtype=type, chunks=size)
        with warnings.catch_warnings(record=True) as words:
            warnings.simplefilter("always")
            one = lambda result: round(float(np.asarray(result)[0, 0]), 2)
            print(type, value, f"in chunks of {size}: sum", one(resampler.get_sum(data)), "average", one(resampler.get_average(data)),
                  "with fill_value=0", one(resampler.get_average(data, fill_value=0)), "maximum", one(resampler.get_max(data)),
                  len([w for w in words if issubclass(w.category, RuntimeWarning)]), "warnings")
P
v/bin/python program.py 2>&1 | tee out
diff - out <<'P'
float32 200 in chunks of 10: sum 5000.0 average 200.0 with fill_value=0 200.0 maximum 200.0 0 warnings
float32 200 in chunks of 5: sum 5000.0 average 200.0 with fill_value=0 200.0 maximum 200.0 0 warnings
uint8 200 in chunks of 10: sum 136.0 average 5.44 with fill_value=0 200.0 maximum 200.0 0 warnings
uint8 200 in chunks of 5: sum 648.0 average 25.92 with fill_value=0 200.0 maximum 200.0 0 warnings
float32 30000 in chunks of 10: sum 750000.0 average 30000.0 with fill_value=0 30000.0 maximum 30000.0 0 warnings
float32 30000 in chunks of 5: sum 750000.0 average 30000.0 with fill_value=0 30000.0 maximum 30000.0 0 warnings
int16 30000 in chunks of 10: sum 29104.0 average 1164.16 with fill_value=0 30000.0 maximum 30000.0 0 warnings
int16 30000 in chunks of 5: sum -36432.0 average -1457.28 with fill_value=0 30000.0 maximum 30000.0 0 warnings
P
echo "as observed: the average of bytes and int16 is wrong"
