#!/usr/bin/env bash
# What: Stream.write_attribute with a new value in each step; PyPI adios2 2.12.1.1001.
# Guess: each step has its own value, or the last one is kept, or there is an error.
# Happens: the first value stays, in the stream and in the file. Its method returns as if the others were written.
# Who meets it: who puts time, step or residual of an output into attributes, as in HDF5 and netCDF, and writes all
#   steps to one file: all have the time 0.
# Instead: a variable: stream.write("time", float(time)).
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
        stream.write("v", numpy.zeros(2))
        stream.write("time", 0.5 * step)
        stream.write_attribute("time of step", 0.5 * step)
        stream.end_step()
with Stream("v.bp", "r") as stream:
    for step in stream.steps():
        print(f"attribute {float(step.read_attribute('time of step'))}, variable {float(step.read('time'))}")
with FileReader("v.bp") as reader:
    print("of the file:", float(reader.read_attribute("time of step")))
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
attribute 0.0, variable 0.0
attribute 0.0, variable 0.5
attribute 0.0, variable 1.0
of the file: 0.0
E
echo "as observed: only the first value of an attribute is written"
