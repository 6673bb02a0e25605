#!/usr/bin/env bash
# What: Stream.write(name, array) of an array that is longer in later steps; PyPI adios2 2.12.1.1001.
# Guess: the array is written as it is. The comment in its source says that without shape, start and count the array's
#   own shape is used, and so it is in the first step.
# Happens: in all other steps it is the shape of the first: 3 and 4 elements are cut to 2. A shorter array is read over
#   its end. With shape, start and count all elements are written; FileReader, though, reads each step in the shape of
#   the first, if it is not asked for more.
# Who meets it: particles, contacts or a refined mesh, of which there are more in each step: the new ones are lost.
# Instead: write(name, array, list(array.shape), [0] * array.ndim, list(array.shape)), and a Stream to read it.
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
def show(text, *selection):
    with Stream("v.bp", "w") as stream:
        for count in 2, 3, 4:
            stream.begin_step()
            stream.write("v", numpy.arange(1.0, count + 1), *(option(count) for option in selection))
            stream.end_step()
    with Stream("v.bp", "r") as stream:
        print(text, "Stream:", [step.read("v").astype(int).tolist() for step in stream.steps()])
    with FileReader("v.bp") as reader:
        steps = [reader.read("v", step_selection=[step, 1]).astype(int).tolist() for step in range(3)]
        print(text, "FileReader:", steps)
show("name and array,")
show("with shape, start, count,", lambda count: [count], lambda count: [0], lambda count: [count])
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
name and array, Stream: [[1, 2], [1, 2], [1, 2]]
name and array, FileReader: [[1, 2], [1, 2], [1, 2]]
with shape, start, count, Stream: [[1, 2], [1, 2, 3], [1, 2, 3, 4]]
with shape, start, count, FileReader: [[1, 2], [1, 2], [1, 2]]
E
echo "as observed: an array that grows is cut to its length in the first step"
