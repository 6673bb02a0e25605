#!/usr/bin/env bash
# What: `z[2:4] = values` of a Zarr array, where the part has another size; PyPI zarr 3.1.6, numpy 2.4.6.
# Guess: an error, as in NumPy and h5py.
# Happens: what is too much is cut off, in each dimension, and nothing is said: of 3 rows 2 are written, of 5 columns 4.
#   A part that reaches past the end, `z[5:9]` of 6 rows, takes the first of 4 rows. Of too few, where the
#   last chunk gets one row, that is repeated: 3 rows fill 4. Each chunk takes 'its' part of the values on its own.
# Who meets it: programs in which each process or step writes its block: a block that is too long, by a halo or by an array
#   that was created one step too short, is written, and its end is lost.
# Instead: compare z[part].shape, or the size of the slice, with values.shape before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install zarr==3.1.6 numpy==2.4.6 h5py==3.16.0
cat >program.py <<'E'
import h5py, numpy as np, zarr
def numbers(*shape): return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
cases = ((np.s_[2:4], (3, 4)), (np.s_[0], (5,)), (np.s_[:], (7, 5)), (np.s_[5:9], (4, 4)), (np.s_[0:4], (3, 4)))
for n, (part, shape) in enumerate(cases):
    print(part, "=", " x ".join(map(str, shape)))
    arrays = (np.zeros((6, 4)), h5py.File(f"f{n}", "w").create_dataset("d", data=np.zeros((6, 4))),
              zarr.create_array({}, shape=(6, 4), chunks=(2, 2), dtype="f8"))
    for name, array in zip(("numpy", "h5py", "zarr"), arrays):
        try:
            array[part] = numbers(*shape)
            print(f"  {name}: {np.count_nonzero(array[:])} of {np.prod(shape)} numbers stored")
        except (ValueError, TypeError, IndexError) as error:
            print(f"  {name}: {type(error).__name__}")
E
v/bin/python program.py | tee out
diff - out <<'E'
slice(2, 4, None) = 3 x 4
  numpy: ValueError
  h5py: TypeError
  zarr: 8 of 12 numbers stored
0 = 5
  numpy: ValueError
  h5py: TypeError
  zarr: 4 of 5 numbers stored
slice(None, None, None) = 7 x 5
  numpy: ValueError
  h5py: TypeError
  zarr: 24 of 35 numbers stored
slice(5, 9, None) = 4 x 4
  numpy: ValueError
  h5py: TypeError
  zarr: 4 of 16 numbers stored
slice(0, 4, None) = 3 x 4
  numpy: ValueError
  h5py: TypeError
  zarr: 16 of 12 numbers stored
E
echo "as observed: Zarr cuts off values that are too many, and repeats a row where one is missing"
