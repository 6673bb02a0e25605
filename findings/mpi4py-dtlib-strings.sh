#!/usr/bin/env bash
# What: mpi4py.util.dtlib.from_numpy_dtype for records with a field of text; PyPI mpi4py 4.1.2, numpy 2.2.6, mpich 5.0.2.
# Guess: the MPI type moves all bytes of the field. 'S8' is a type of numpy like another, and what dtlib cannot convert raises ValueError
#   (numbers of the other byte order do).
# Happens: one letter is moved: 'S8' becomes a single MPI_CHAR, and 'U8' (32 bytes) a single MPI_WCHAR. The other letters stay what they
#   were in the receiver's memory, and nothing is said. Alone, two entries of 'S8' move as two bytes, the first two of the first entry.
#   The fields of numbers around it are right, and the extent of the records too.
# Who meets it: programs that gather tables of results with a name in each row (host, case, station) as one message.
# Instead: a field of numbers, ('u1', 8), seen as text with .view('S8') on either side; or MPI.BYTE.Create_contiguous(dtype.itemsize)
#   between PCs of one kind; or the lower-case calls, which pickle.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore FI_PROVIDER=tcp FI_TCP_IFACE=lo
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install --no-deps mpi4py==4.1.2 numpy==2.2.6 mpich==5.0.2
cat >"$T/program.py" <<'P'
import mpi4py, numpy as np
from mpi4py import MPI
from mpi4py.util import dtlib
world = MPI.COMM_WORLD
if world.rank == 1:
    print("mpi4py", mpi4py.__version__, "numpy", np.__version__, flush=True)
def sent(name, dtype, rows, empty, kind=None, seen=None):
    dtype = np.dtype(dtype)
    kind = (kind or dtlib.from_numpy_dtype(dtype)).Commit()
    if world.rank == 0:
        world.Send([np.array(rows, dtype), len(rows), kind], 1)
    else:
        table = np.array([empty] * len(rows), dtype)
        world.Recv([table, len(rows), kind], 0)
        print(f"{name}: {kind.Get_size()} of {dtype.itemsize} bytes, {table.view(seen or dtype).tolist()}", flush=True)
rows, empty = [("node1", 1.5), ("node2", 2.5)], ("-----", 0.0)
sent("bytes", [("host", "S8"), ("time", "f8")], rows, empty)
sent("text", [("host", "U8"), ("time", "f8")], rows, empty)
sent("alone", "S8", ["node1", "node2"], "-----")
sent("as numbers", [("host", "u1", 8), ("time", "f8")], np.array(rows, [("host", "S8"), ("time", "f8")]).view([("host", "u1", 8), ("time", "f8")]),
     ((45,) * 8, 0.0), seen=[("host", "S8"), ("time", "f8")])
dtype = np.dtype([("host", "S8"), ("time", "f8")])
sent("as MPI.BYTE", dtype, rows, empty, MPI.BYTE.Create_contiguous(dtype.itemsize))
if world.rank == 1:
    try:
        dtlib.from_numpy_dtype(np.dtype(">f8"))
    except ValueError as error:
        print("other byte order: ValueError", flush=True)
P
PATH="$T/v/bin:$PATH" LD_LIBRARY_PATH="$T/v/lib" timeout -k 5 60 "$T/v/bin/mpirun" -n 2 "$T/v/bin/python" "$T/program.py" </dev/null | tee "$T/out"
diff - "$T/out" <<'P'
mpi4py 4.1.2 numpy 2.2.6
bytes: 9 of 16 bytes, [(b'n----', 1.5), (b'n----', 2.5)]
text: 12 of 40 bytes, [('n----', 1.5), ('n----', 2.5)]
alone: 1 of 8 bytes, [b'no---', b'-----']
as numbers: 16 of 16 bytes, [(b'node1', 1.5), (b'node2', 2.5)]
as MPI.BYTE: 16 of 16 bytes, [(b'node1', 1.5), (b'node2', 2.5)]
other byte order: ValueError
P
echo "as observed: dtlib's type for a field of text moves its first letter"
