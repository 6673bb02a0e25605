#!/usr/bin/env bash
# What: Stream.write of a NumPy array that is not contiguous; PyPI adios2 2.12.1.1001.
# Guess: the values of the array are written, or an error is raised, as mpi4py does: 'ndarray is not contiguous'. The
#   wheel's own texts for arrays it refuses have 'is not memory contiguous' as a cause.
# Happens: as many values as the array has are taken one after another from its first: u[1:-1, 1:-1] gets the columns
#   of its halo and loses its last rows, a transposed or Fortran-ordered array is shuffled. The shape in the file is
#   right, and nothing is said. Older versions had this fault too.
# Who meets it: solvers that write the inner part of an array with a halo, every second column, or the array of f2py.
# Instead: numpy.ascontiguousarray(u[1:-1, 1:-1]).
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
u = numpy.arange(20.0).reshape(4, 5)
for name, array in {"whole": u, "inner": u[1:-1, 1:-1], "transposed": u[:2, :3].T.copy(order="F"),
                    "copied": numpy.ascontiguousarray(u[1:-1, 1:-1])}.items():
    with Stream(name + ".bp", "w") as stream:
        stream.begin_step()
        stream.write(name, array, list(array.shape), [0, 0], list(array.shape))
        stream.end_step()
    with FileReader(name + ".bp") as stream:
        got = stream.read(name)
    same = "as given" if (got == array).all() else f"{array.astype(int).tolist()} is {got.astype(int).tolist()}"
    print(f"{name}: {same}")
import glob, os
for profile in glob.glob(f"/tmp/*.bp_{os.getpid():x}_profiling.json"): os.remove(profile)      # one for each file
E
env/bin/python program.py | tee out
diff - out <<'E'
adios2 2.12.1.1001
whole: as given
inner: [[6, 7, 8], [11, 12, 13]] is [[6, 7, 8], [9, 10, 11]]
transposed: [[0, 5], [1, 6], [2, 7]] is [[0, 1], [2, 5], [6, 7]]
copied: as given
E
echo "as observed: ADIOS2 writes other values than those of an array that is not contiguous"
