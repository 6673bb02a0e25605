#!/usr/bin/env bash
# What: h5diff of two files whose datasets of one name differ in shape or in kind of number; Debian hdf5-tools 1.10.8+repack1-1.
# Guess: status 1. Its help says that rank, dimensions, datatypes and values are compared, and that 0 means no differences.
# Happens: status 0 where one dataset has 4 numbers and the other 5, where (2, 3) meets (3, 2), and where doubles meet integers of
#   quite other values. It prints 'Some objects are not comparable', which looks like a note. A dataset that one file lacks, and
#   an attribute that one lacks, do give 1, and not a word.
# Who meets it: whoever compares the output of a run on 4 ranks with that of 1, or of two versions, with `h5diff && echo same`: a run
#   that stopped a step earlier, or was transposed, is the same.
# Instead: `h5diff -c` and a look for 'not comparable' in its output, or compare shapes and dtypes with h5py first.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q hdf5-tools=1.10.8+repack1-1 libhdf5-103-1=1.10.8+repack1-1 libhdf5-hl-100=1.10.8+repack1-1 libsz2 libaec0 libcurl4 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
python3 -m venv --without-pip v
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip -q --python v/bin/python install h5py==3.14.0 numpy==2.2.6
cat >write.py <<'P'
import h5py, numpy as np
def write(name, values, **attributes):
    with h5py.File(f"{name}.h5", "w") as file:
        file["time"] = 0.5
        if values is not None:
            file["field"] = values
            file["field"].attrs.update(attributes)
write("base", np.arange(4.0)); write("copy", np.arange(4.0)); write("other", np.arange(4.0) + 1); write("longer", np.arange(5.0))
write("integers", np.array([90, 91, 92, 93])); write("none", None); write("unit", np.arange(4.0), unit="m")
write("rows", np.zeros((2, 3))); write("columns", np.ones((3, 2)))
P
v/bin/python write.py
h5diff() { LD_LIBRARY_PATH="$libraries:$libraries/hdf5/serial" usr/bin/h5diff "$@"; }
h5diff --version
h5diff --help | grep -E 'Array rank and dimensions|0 if no differences' | tr -s ' '
while read -r one two; do
    result=0; h5diff "$one.h5" "$two.h5" >words 2>&1 || result=$?
    echo "$one $two: status $result, $(grep -oE '[0-9]+ differences found|not comparable' words || echo 'not a word')"
done <<'P' | tee out
base copy
base other
base longer
base integers
rows columns
base none
base unit
P
diff - out <<'P'
base copy: status 0, not a word
base other: status 1, 4 differences found
base longer: status 0, not comparable
base integers: status 0, not comparable
rows columns: status 0, not comparable
base none: status 1, not a word
base unit: status 1, not a word
P
echo "as observed: datasets of other shapes and types are no difference for h5diff's status"
