#!/usr/bin/env bash
# What: kerchunk's MultiZarrToZarr of netCDF files with a packing each; PyPI kerchunk 0.2.10, xarray 2026.9.0, zarr 3.1.6.
# Guess: an error, or right values: it looks into the files for their coordinates and units of time.
# Happens: scale_factor and add_offset are those of the first file for all: the other files' integers are scaled wrong.
#   Where the times have other units in each file, `cf:time` reads them right; for the data nothing is compared or said.
# Who meets it: one reference file over years of packed reanalysis, to be read in parallel without a copy: all values but
#   those of the first file are wrong, and look like a field.
# Instead: compare the attributes of all references first (a preprocess function that raises); xarray's open_mfdataset.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install kerchunk==0.2.10 cftime==1.6.6.1 zarr==3.1.6 fsspec==2026.9.0 xarray==2026.9.0 dask==2026.8.0 h5netcdf==1.8.2 h5py==3.16.0 numpy==2.4.6 pandas==3.1.1
cat >program.py <<'E'
import json, numpy as np, xarray as xr
from kerchunk.combine import MultiZarrToZarr
from kerchunk.hdf import SingleHdf5ToZarr
def day(number, step, offset, values):
    data = xr.Dataset({"t2m": ("time", np.array(values))},
                      {"time": np.datetime64(f"2024-01-0{number}", "ns") + np.array([0, 12], "m8[h]")})
    data.to_netcdf(f"{number}.nc", engine="h5netcdf", encoding={
        "t2m": dict(dtype="int16", scale_factor=step, add_offset=offset, _FillValue=-32768),
        "time": dict(units=f"hours since 2024-01-0{number}", dtype="int32")})
day(1, 0.001, 273.0, [270.0, 280.0])
day(2, 0.01, 250.0, [300.0, 310.0])
references = [SingleHdf5ToZarr(f"{n}.nc", inline_threshold=0).translate() for n in (1, 2)]
combined = MultiZarrToZarr(references, concat_dims=["time"], coo_map={"time": "cf:time"}).translate()
json.dump(combined, open("combined.json", "w"))
ds = xr.open_dataset("reference://", engine="zarr",
                     backend_kwargs=dict(storage_options=dict(fo="combined.json"), consolidated=False))
print("files   ", xr.open_mfdataset(["1.nc", "2.nc"], engine="h5netcdf").t2m.values)
print("kerchunk", ds.t2m.values)
print(ds.time.values.astype("M8[h]"))
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
files    [270. 280. 300. 310.]
kerchunk [270. 280. 278. 279.]
['2024-01-01T00' '2024-01-01T12' '2024-01-02T00' '2024-01-02T12']
E
echo "as observed: kerchunk takes the packing of the first file for all"
