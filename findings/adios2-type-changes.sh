#!/usr/bin/env bash
# What: Stream.write of a name with another type than in the step before; PyPI adios2 2.12.1.1001.
# Guess: an error, or the value converted to the type of the first step.
# Happens: the bytes are taken for the first type. `time = 0` and then `time += 0.5` is 0, 4602678819172646912,
#   4607182418800017408, and a 2 after 1.5 is 1e-323. Arrays likewise: integers in an array of doubles are about 0.
#   Nothing is said.
# Who meets it: each loop that starts from a Python integer (time, residual, count), and arrays that are of integers
#   in one step, because they were made by numpy.zeros(n, int) or read from a text.
# Instead: float(time), or array.astype(float), in each write.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install adios2==2.12.1.1001 numpy==2.4.6
cd "$T"
cat >program.py <<'E'
import adios2, numpy
from adios2 import Stream
print("adios2", adios2.__version__)
def show(text, values):
    with Stream("v.bp", "w") as stream:
        for value in values:
            stream.begin_step(); stream.write("v", value); stream.end_step()
    with Stream("v.bp", "r") as stream:
        print(text, [step.read("v").tolist() for step in stream.steps()])
show("time from 0:", [0, 0.5, 1.0])
show("time from 0.0:", [0.0, 0.5, 1.0])
show("1.5, then 2:", [1.5, 2])
show("arrays:", [numpy.array([1.0, 2]), numpy.array([3, 4])])
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
time from 0: [0, 4602678819172646912, 4607182418800017408]
time from 0.0: [0.0, 0.5, 1.0]
1.5, then 2: [1.5, 1e-323]
arrays: [[1.0, 2.0], [1.5e-323, 2e-323]]
E
echo "as observed: a value of another type is written as the bytes of the first type"
