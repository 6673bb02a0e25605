#!/usr/bin/env bash
# What: zarr.open_array(path, shape=..., dtype=..., chunks=...) of an array that exists; PyPI zarr 3.1.6, numpy 2.4.6.
# Guess: an error where the array has another shape or type, as h5py's require_dataset has.
# Happens: shape, dtype, chunks and fill_value are dropped without a word, and the array that is there is opened: mode 'a',
#   'r+' and none at all (which is 'a'). Floating-point numbers that are written to it become integers.
#   require_array compares the shape, and takes int16 for float64, because the one can be cast to the other.
# Who meets it: a job that writes to a fixed path, run again with another resolution or type: its results are cut to the
#   old shape, or rounded.
# Instead: zarr.create_array, which refuses a path that exists, mode='w-', or require_array with exact=True.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install zarr==3.1.6 numpy==2.4.6
cat >program.py <<'E'
import numpy as np, zarr
wanted = dict(shape=(8,), dtype="f8", chunks=(4,), fill_value=9)
for name in "no mode", "a", "r+", "w-":
    zarr.open_array("old", mode="w", shape=(4,), dtype="i2", chunks=(2,))[:] = 1
    try:
        z = zarr.open_array("old", **wanted, **({} if name == "no mode" else {"mode": name}))
        z[:] = 2.75
        print(f"{name}: {z.shape} {z.dtype} {z.chunks} {z[:]}")
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
group = zarr.open_group("group", mode="w")
group.create_array("x", shape=(4,), dtype="i2")
for more in {}, {"exact": True}:
    try:
        print("require_array", more, group.require_array("x", shape=(4,), dtype="f8", **more).dtype)
    except TypeError as error:
        print("require_array", more, "TypeError")
E
v/bin/python -W error program.py | tee out
diff - out <<'E'
no mode: (4,) int16 (2,) [2 2 2 2]
a: (4,) int16 (2,) [2 2 2 2]
r+: (4,) int16 (2,) [2 2 2 2]
w-: FileExistsError
require_array {} int16
require_array {'exact': True} TypeError
E
echo "as observed: zarr.open_array drops the shape and type it is given where there is an array"
