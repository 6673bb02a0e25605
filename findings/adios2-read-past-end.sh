#!/usr/bin/env bash
# What: reading elements that an ADIOS2 array does not have, or that no rank wrote; PyPI adios2 2.12.1.1001.
# Guess: read(name, [6], [4]) of an array of 8 elements is an error, or gives the two that are there, as h5py does.
# Happens: it gives four: the two, and two zeros. So does start 20, far behind the end: four zeros. Elements that were
#   never written are zeros as well, though their block is in no list. The status is 0, and no word is said.
# Who meets it: readers that divide an array over N ranks with blocks rounded up: the last rank adds zeros to its sums,
#   so means and minima depend on the number of ranks. Restarts from a file of a smaller mesh begin with zeros.
# Instead: compare start + count with available_variables()[name]["Shape"] before, and all_blocks_info(name) for holes.
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
    stream.begin_step()
    stream.write("v", numpy.arange(1.0, 9.0), [8], [0], [8])
    stream.write("hole", numpy.arange(1.0, 3.0), [8], [0], [2])
    stream.write("hole", numpy.arange(6.0, 9.0), [8], [5], [3])
    stream.end_step()
with FileReader("v.bp") as reader:
    for name, start in ("v", 6), ("v", 20), ("hole", 0):
        count = 8 if name == "hole" else 4
        print(f"{name} from {start}, {count}: {reader.read(name, [start], [count]).astype(int).tolist()}")
for ranks in 2, 3, 5:
    block = -(-8 // ranks)
    parts = []
    for rank in range(ranks):
        with FileReader("v.bp") as reader: parts.append(reader.read("v", [rank * block], [block]))
    print(f"mean and minimum by {ranks} ranks: {numpy.mean(parts):.2f} {numpy.min(parts):.0f}")
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
v from 6, 4: [7, 8, 0, 0]
v from 20, 4: [0, 0, 0, 0]
hole from 0, 8: [1, 2, 0, 0, 0, 6, 7, 8]
mean and minimum by 2 ranks: 4.50 1
mean and minimum by 3 ranks: 4.00 0
mean and minimum by 5 ranks: 3.60 0
E
echo "as observed: elements behind the end of an array are zeros"
