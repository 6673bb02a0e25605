#!/usr/bin/env bash
# What: tolerance, precision and rate of zfpy.compress_numpy with integers; PyPI zfpy 1.0.1.post0, numpy 2.3.5.
# Guess: tolerance=0.5 keeps integers as they are, for no error is allowed to be 1; precision=16 keeps the leading 16
#   bits of the values, as with floats, or an error says that integers have no such mode.
# Happens: tolerance is ignored: 0, 0.5 and 100 give the same values, with errors of 1 in one dimension and of more in
#   three. precision counts bits from the top of the type, not of the values: of small numbers in an int32 precision=16
#   leaves zeros, in an int64 precision=40, too. With floats both do what they should.
# Who meets it: counts, labels, and numbers of atoms or cells in a file that is otherwise of floats and is compressed
#   with one setting for all: a label of 3 comes back as 2.
# Instead: no option for integers, which is lossless.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install zfpy==1.0.1.post0 numpy==2.3.5
cat >program.py <<'P'
import numpy as np, zfpy
def back(x, **options): return zfpy.decompress_numpy(zfpy.compress_numpy(x, **options))
labels = np.arange(1, 9)
for kind in "f8", "i4":
    x = labels.astype(kind)
    for options in {}, {"tolerance": 0.5}, {"precision": 16}, {"rate": 32}:
        print(kind, options, *back(x, **options).round(3).tolist())
x = labels.astype("i4")
print("tolerance 0 and 100:", *(back(x, tolerance=t).tolist() for t in (0, 100)))
print("i8, precision 40:", *back(labels.astype("i8"), precision=40))
cube = np.random.default_rng(1).integers(0, 1000, (8, 8, 8))
for kind in "f8", "i4", "i8":
    error = np.abs(back(cube.astype(kind), tolerance=0.5) - cube).max()
    print(f"{kind}, three dimensions, tolerance=0.5: the error is " + ("below 0.5" if error <= 0.5 else str(error)))
P
v/bin/python program.py | tee out
diff - out <<'P'
f8 {} 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0
f8 {'tolerance': 0.5} 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0
f8 {'precision': 16} 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0
f8 {'rate': 32} 1.0 2.0 3.0 4.0 5.0 6.0 7.0 8.0
i4 {} 1 2 3 4 5 6 7 8
i4 {'tolerance': 0.5} 0 2 2 4 4 6 6 8
i4 {'precision': 16} 0 0 0 0 0 0 0 0
i4 {'rate': 32} 0 2 2 4 4 6 6 8
tolerance 0 and 100: [0, 2, 2, 4, 4, 6, 6, 8] [0, 2, 2, 4, 4, 6, 6, 8]
i8, precision 40: 0 0 0 0 0 0 0 0
f8, three dimensions, tolerance=0.5: the error is below 0.5
i4, three dimensions, tolerance=0.5: the error is 19
i8, three dimensions, tolerance=0.5: the error is 19
P
echo "as observed: zfpy ignores the tolerance for integers, and counts precision from the type's top bit"
