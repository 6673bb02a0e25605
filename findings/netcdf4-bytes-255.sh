#!/usr/bin/env bash
# What: bytes in a netCDF file, read by Python's netCDF4; PyPI netCDF4 1.7.5.1.post1, numpy 2.4.6.
# Guess: bytes have no fill value unless the file says so, as the netCDF User's Guide says, and as xarray has it: 255 is 255.
# Happens: 255 of unsigned bytes, and -127 of signed ones, are masked when they are read, in files without _FillValue. The
#   mean of a half white image is 0.0. Nothing is said. The file has the bytes; with fill_value=False they are read.
# Who meets it: masks, images, quality flags and percentages stored as bytes, also those that another program wrote.
#   xarray reads the same file whole.
# Instead: variable.set_auto_mask(False) before reading, or fill_value=False in createVariable.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install netCDF4==1.7.5.1.post1 numpy==2.4.6 xarray==2026.9.0
cat >program.py <<'P'
import netCDF4, numpy as np, xarray
with netCDF4.Dataset("image.nc", "w") as file:
    file.createDimension("x", 4)
    file.createVariable("image", "u1", ("x",))[:] = np.array([255, 255, 0, 0], "u1")
    file.createVariable("signed", "i1", ("x",))[:] = np.array([-127, -128, 1, 2], "i1")
    file.createVariable("without_fill", "u1", ("x",), fill_value=False)[:] = np.array([255, 255, 0, 0], "u1")
with netCDF4.Dataset("image.nc") as file:
    for name, variable in file.variables.items():
        print(name, variable.ncattrs(), variable[:], round(float(variable[:].mean()), 1))
    file["image"].set_auto_mask(False)
    print("set_auto_mask(False)", file["image"][:], file["image"][:].mean())
with xarray.open_dataset("image.nc") as file:
    print("xarray", file["image"].values, file["signed"].values)
P
v/bin/python program.py | tee out
diff - out <<'P'
image [] [-- -- 0 0] 0.0
signed [] [-- -128 1 2] -41.7
without_fill [] [255 255   0   0] 127.5
set_auto_mask(False) [255 255   0   0] 127.5
xarray [255 255   0   0] [-127 -128    1    2]
P
echo "as observed: netCDF4 masks the byte 255, or -127, of a file that has no fill value"
