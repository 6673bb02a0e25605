#!/usr/bin/env bash
# What: xarray's open_mfdataset of packed files, then to_netcdf; PyPI xarray 2026.9.0, dask 2026.8.0, h5netcdf 1.8.2.
# Guess: the file holds the values that the dataset shows.
# Happens: files of short integers with a scale_factor and add_offset each, as ERA5 is delivered, are read right. The
#   dataset keeps the packing of the first file, and to_netcdf packs all with it: what does not fit its range wraps
#   around. 306 K becomes 256 K, and nothing is said. to_zarr does the same.
# Who meets it: joining months or years of packed reanalysis: the packing of January does not hold July's maxima; the
#   values that are wrong are the extremes.
# Instead: `ds[name].encoding.clear()` (or ds.drop_encoding()) before to_netcdf, and reading it back.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install xarray==2026.9.0 dask==2026.8.0 h5netcdf==1.8.2 h5py==3.16.0 numpy==2.4.6 pandas==3.1.1
cat >program.py <<'E'
import numpy as np, xarray as xr
def month(name, time, low, high, values):
    step = (high - low) / 65000           # the packing that fits this month
    packing = dict(dtype="int16", scale_factor=step, add_offset=(low + high) / 2, _FillValue=-32768)
    xr.Dataset({"t2m": ("time", np.array(values))}, {"time": time}).to_netcdf(name, engine="h5netcdf", encoding={"t2m": packing})
month("january.nc", [0, 1, 2], 250, 300, [251.0, 280.0, 299.0])
month("july.nc", [3, 4, 5], 260, 320, [290.0, 306.0, 319.0])
ds = xr.open_mfdataset(["january.nc", "july.nc"], engine="h5netcdf")
def show(name, values): print(f"{name:16}", np.round(values, 1))
show("dataset", ds.t2m.values)
ds.to_netcdf("both.nc", engine="h5netcdf")
show("to_netcdf", xr.open_dataset("both.nc", engine="h5netcdf").t2m.values)
ds.drop_encoding().to_netcdf("clean.nc", engine="h5netcdf")
show("drop_encoding()", xr.open_dataset("clean.nc", engine="h5netcdf").t2m.values)
E
v/bin/python -W error program.py | tee out
diff - out <<'E'
dataset          [251. 280. 299. 290. 306. 319.]
to_netcdf        [251.  280.  299.  290.  255.6 268.6]
drop_encoding()  [251. 280. 299. 290. 306. 319.]
E
echo "as observed: to_netcdf packs all files with the packing of the first, and values wrap around"
