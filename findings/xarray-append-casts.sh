#!/usr/bin/env bash
# What: xarray's to_zarr(append_dim=...) and region= of another number type; PyPI xarray 2026.9.0, zarr 3.1.6.
# Guess: an error, as for strings that are longer than those of the store: 'Mismatched dtypes'.
# Happens: numbers are cast to the store's type, and nothing is said: 1.5 is appended to integers as 2, 70000 to short
#   integers as 4464, 1e300 to float32 as infinity, and NaN to integers as a number.
# Who meets it: a store that grows: counts that were whole numbers (or had no missing value) in the first run, and have
#   fractions or NaN in a later one.
# Instead: create the store with float64, or compare `ds[name].dtype` with the store's before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install xarray==2026.9.0 zarr==3.1.6 dask==2026.8.0 numpy==2.4.6 pandas==3.1.1
cat >program.py <<'E'
import numpy as np, xarray as xr
def data(values): return xr.Dataset({"v": ("time", values)})
for first, more in ((np.array([1, 2]), np.array([1.5, 2.5])), (np.array([1, 2]), np.array([np.nan, 3])),
                    (np.array([1, 2], "i2"), np.array([70000, 3])), (np.array([1, 2], "f4"), np.array([1e300, 3])),
                    (np.array(["a", "b"]), np.array(["long", "c"]))):
    print(f"{more.dtype} {more} to {first.dtype}:")
    for how in dict(append_dim="time"), dict(region={"time": slice(0, 2)}):
        data(first).to_zarr("store", mode="w", consolidated=False)
        try:
            data(more).to_zarr("store", consolidated=False, **how)
            v = xr.open_zarr("store", consolidated=False).v.values
            shown = [int(x) if x == x and abs(x) < 2**62 and v.dtype.kind == "i" else
                     "another number" if v.dtype.kind == "i" else float(x) for x in v]
            print(" ", *how, shown)
        except ValueError as error:
            print(" ", *how, "ValueError:", str(error).split(" for")[0])
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
float64 [1.5 2.5] to int64:
  append_dim [1, 2, 2, 2]
  region [2, 2]
float64 [nan  3.] to int64:
  append_dim [1, 2, -9223372036854775808, 3]
  region [-9223372036854775808, 3]
int64 [70000     3] to int16:
  append_dim [1, 2, 4464, 3]
  region [4464, 3]
float64 [1.e+300 3.e+000] to float32:
  append_dim [1.0, 2.0, inf, 3.0]
  region [inf, 3.0]
<U4 ['long' 'c'] to <U1:
  append_dim ValueError: Mismatched dtypes
  region ValueError: Mismatched dtypes
E
echo "as observed: to_zarr casts what is appended to the type of the store"
