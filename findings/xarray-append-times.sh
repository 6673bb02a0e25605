#!/usr/bin/env bash
# What: xarray's to_zarr(append_dim="time") of times that need a finer unit; PyPI xarray 2026.9.0, zarr 3.1.6.
# Guess: the times that were appended, or an error.
# Happens: the store's unit is 'days since ...', taken from the first dates. 6-hourly dates do not fit it: they are
#   encoded in hours, with a warning which says that hours are used 'instead'; but the store keeps its days. The hours
#   are read as days: 3 January is read as 18 February, 06:00 of it as 24 February. The status is 0.
# Who meets it: a store that grows with each run or download: it was created from daily or midnight dates, and later gets
#   6-hourly ones. The data are right, at the wrong time.
# Instead: encoding={"time": {"units": "seconds since 1970-01-01", "dtype": "int64"}} when the store is created; and
#   `python -W error::UserWarning`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install xarray==2026.9.0 zarr==3.1.6 numpy==2.4.6 pandas==3.1.1
cat >program.py <<'E'
import numpy as np, warnings, xarray as xr
def dates(start, step, n): return np.datetime64(start, "ns") + np.arange(n) * np.timedelta64(step, "h")
first = xr.Dataset({"t": ("time", [1.0, 2.0])}, {"time": dates("2024-01-01", 24, 2)})
more = xr.Dataset({"t": ("time", [3.0, 4.0, 5.0])}, {"time": dates("2024-01-03", 6, 3)})
for encoding in None, {"time": {"units": "seconds since 1970-01-01", "dtype": "int64"}}:
    print("units of the store:", encoding["time"]["units"] if encoding else "by itself")
    first.to_zarr("store", mode="w", encoding=encoding, consolidated=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        more.to_zarr("store", append_dim="time", consolidated=False)
    print(" ", [str(w.message).split(". ")[0] for w in caught])
    print("  given", *np.concatenate([first.time, more.time]).astype("M8[h]"))
    print("  read ", *xr.open_zarr("store", consolidated=False).time.values.astype("M8[h]"))
E
v/bin/python program.py | tee out
diff - out <<'E'
units of the store: by itself
  ["Times can't be serialized faithfully to int64 with requested units 'days since 2024-01-01'"]
  given 2024-01-01T00 2024-01-02T00 2024-01-03T00 2024-01-03T06 2024-01-03T12
  read  2024-01-01T00 2024-01-02T00 2024-02-18T00 2024-02-24T00 2024-03-01T00
units of the store: seconds since 1970-01-01
  []
  given 2024-01-01T00 2024-01-02T00 2024-01-03T00 2024-01-03T06 2024-01-03T12
  read  2024-01-01T00 2024-01-02T00 2024-01-03T00 2024-01-03T06 2024-01-03T12
E
echo "as observed: hours are appended to days, and read as days"
