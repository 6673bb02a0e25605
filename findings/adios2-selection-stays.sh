#!/usr/bin/env bash
# What: start, count and step_selection of ADIOS2's read(name, ...); PyPI adios2 2.12.1.1001.
# Guess: they are arguments of one call. A later read(name) without them gives the whole array, as the first one did.
# Happens: they stay with the variable while the file is open: read("v") after read("v", [1], [2]) gives two elements,
#   and after read("v", step_selection=[2, 1]) those of step 2. start=[1] alone, without count, is not used at all.
# Who meets it: who looks at a part of a field, or at its last step, and then reads "all" of it in another function: a
#   mean or a checksum of the part, or of another step; NumPy broadcasts where the shape might have told it.
# Instead: give start, count and step_selection in each read of a variable that had them once, or open the file anew.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install adios2==2.12.1.1001 numpy==2.4.6
cd "$T"
cat >program.py <<'E'
import adios2, numpy
from adios2 import FileReader, Stream
print("adios2", adios2.__version__)
with Stream("v.bp", "w") as stream:
    for step in range(3):
        stream.begin_step()
        stream.write("v", numpy.arange(4.0) + 10 * step, [4], [0], [4])
        stream.end_step()
with FileReader("v.bp") as reader:
    def show(text, **selection): print(text, reader.read("v", **selection).astype(int).tolist())
    show("all:")
    show("start 1:", start=[1])
    show("start 1, count 2:", start=[1], count=[2])
    show("all:")
    show("step 2:", step_selection=[2, 1])
    show("all:")
    show("start 0, count 4, step 0:", start=[0], count=[4], step_selection=[0, 1])
with FileReader("v.bp") as reader:
    show("all, opened anew:")
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
all: [0, 1, 2, 3]
start 1: [0, 1, 2, 3]
start 1, count 2: [1, 2]
all: [1, 2]
step 2: [21, 22]
all: [21, 22]
start 0, count 4, step 0: [0, 1, 2, 3]
all, opened anew: [0, 1, 2, 3]
E
echo "as observed: a selection holds for all later reads of the variable"
