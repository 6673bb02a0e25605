#!/usr/bin/env bash
# What: HDF5's scale-offset filter, `scaleoffset=2` of h5py, with a field that has NaN; PyPI h5py 3.16.0, numpy 2.4.6.
# Guess: two digits behind the point are kept, and NaN stays NaN,
#   or the field is stored as it is, as with one infinite value.
# Happens: a NaN is read back as the smallest number of its chunk. No error, and the other values are right.
# Who meets it: fields of temperature or height with NaN over land or outside a domain, packed for their size: all NaN are
#   gone, and the hole is as cold as the coldest point around.
# Instead: gzip with shuffle, or a number far outside as the mark of what is missing: it costs size, and stays.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install h5py==3.16.0 numpy==2.4.6
cat >program.py <<'P'
import h5py, numpy as np
field = 280 + np.arange(1000).reshape(10, 100) / 100
def show(name, value, **options):
    given = field.copy(); given[3, 5] = given[8, 8] = value
    with h5py.File("field.h5", "w") as file: file.create_dataset("t", data=given, chunks=(5, 100), **options)
    with h5py.File("field.h5") as file: read = file["t"][:]
    others = abs(np.delete(read, [305, 808]) - np.delete(given, [305, 808]))
    print(f"{name}: {value} is {read[3, 5]:.6g} and {read[8, 8]:.6g}, others within 0.01: {bool(np.all(others < 0.01))}")
show("scaleoffset", 283.14, scaleoffset=2)
show("scaleoffset", np.nan, scaleoffset=2)
show("scaleoffset", np.inf, scaleoffset=2)
show("scaleoffset", -9999.0, scaleoffset=2)
show("gzip", np.nan, compression="gzip", shuffle=True)
P
v/bin/python program.py | tee out
diff - out <<'P'
scaleoffset: 283.14 is 283.14 and 283.14, others within 0.01: True
scaleoffset: nan is 280 and 285, others within 0.01: True
scaleoffset: inf is inf and inf, others within 0.01: True
scaleoffset: -9999.0 is -9999 and -9999, others within 0.01: True
gzip: nan is nan and nan, others within 0.01: True
P
echo "as observed: the scale-offset filter makes NaN the smallest number of its chunk"
