#!/usr/bin/env bash
# What: zfpy.compress_numpy of a field of packed records, and of a broadcast array; PyPI zfpy 1.0.1.post0, numpy 2.3.5.
# Guess: the array that NumPy shows, as for transposed, sliced and reversed ones: without options zfpy is lossless.
# Happens: strides are handed on as whole numbers of elements, and 0 means 'one after another'. A field of 8 bytes in
#   records of 12 has a stride of 1.5 elements, taken as 1: the values are parts of the neighbouring fields. A broadcast
#   array has a stride of 0: the rows are what lies behind the first one in memory. No error, the shape is right.
# Who meets it: particles read with np.fromfile and a dtype of fields, which is packed; coordinates of a grid made with
#   np.broadcast_to or meshgrid(copy=False). The original is gone once only the compressed file is kept.
# Instead: np.ascontiguousarray(x) before, and a comparison after.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install zfpy==1.0.1.post0 numpy==2.3.5
cat >program.py <<'P'
import numpy as np, zfpy
def show(name, x):
    y = zfpy.decompress_numpy(zfpy.compress_numpy(x))
    print(f"{name}: " + ("as given" if np.array_equal(x, y) else "others"), x.strides)
    return y
table = np.arange(12.0)
grid = table.reshape(3, 4)
show("transposed", grid.T); show("each second column", grid[:, ::2]); show("reversed", grid[::-1])
print(show("broadcast", np.broadcast_to(table[:4], (3, 4))))
for align in True, False:
    particles = np.zeros(6, np.dtype([("id", "i4"), ("x", "f8")], align=align))
    particles["id"] = range(6); particles["x"] = np.arange(6) / 2
    y = show("field, " + ("aligned" if align else "packed"), particles["x"][:4])   # [:4]: all that is read is ours
print(np.round(y, 3))
show("field, copied", np.ascontiguousarray(particles["x"]))
P
v/bin/python program.py | tee out
diff - out <<'P'
transposed: as given (8, 32)
each second column: as given (32, 16)
reversed: as given (-32, 8)
broadcast: others (0, 8)
[[ 0.  1.  2.  3.]
 [ 4.  5.  6.  7.]
 [ 8.  9. 10. 11.]]
field, aligned: as given (16,)
field, packed: others (12,)
[0. 0. 0. 1.]
field, copied: as given (8,)
P
echo "as observed: zfpy compresses other values than those of broadcast arrays and packed records"
