#!/usr/bin/env bash
# What: netCDF4's packing, with values that do not fit into the type; PyPI netCDF4 1.7.5.1.post1, numpy 2.4.6.
# Guess: an error or a missing value, as an integer that does not fit into a short is an OverflowError.
# Happens: a variable with scale_factor and add_offset takes the number and stores the last 16 bits of what is packed: 4000 is
#   -2553.6. No warning.
# Who meets it: output with the packing of an input file, as of ERA5, whose range is that of the input: a warmer run, a
#   storm, or another unit, and a few points have wrong numbers.
# Instead: a comparison after writing. A short can hold add_offset plus or minus 32767 times scale_factor.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install netCDF4==1.7.5.1.post1 numpy==2.4.6
cat >program.py <<'P'
import netCDF4, numpy as np
with netCDF4.Dataset("packed.nc", "w") as file:
    file.createDimension("x", 1)
    t = file.createVariable("t", "i2", ("x",), fill_value=-32768)
    t.scale_factor, t.add_offset = 0.1, 300.0
    for value in 301.5, -2900.0, 3576.7, 3577.0, 4000.0:
        t[:] = np.array([value])
        print(value, "is", np.round(t[:], 1)[0])
    plain = file.createVariable("plain", "i2", ("x",))
    try: plain[:] = [70000]
    except OverflowError as e: print("without packing, 70000:", type(e).__name__)
P
v/bin/python -W error program.py 2>&1 | tee out
diff - out <<'P'
301.5 is 301.5
-2900.0 is -2900.0
3576.7 is 3576.7
3577.0 is -2976.6
4000.0 is -2553.6
without packing, 70000: OverflowError
P
echo "as observed: a number that does not fit is packed as another one"
