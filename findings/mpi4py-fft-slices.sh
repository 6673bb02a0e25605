#!/usr/bin/env bash
# What: global_slice of DistArray.write, and DistArray.get, of mpi4py-fft; Debian python3-mpi4py-fft 2.0.4-1+b4.
# Guess: rows 1 to 3 of a distributed array are stored for slice(1, 4), and the last row for -1. The documentation of
#   global_slice says: 'sequence of slices or integers', 'Store only this global slice'.
# Happens: the row -1 is zeros, and so is one behind the end, in write as in get. slice(1, 4) is an error with one or
#   two ranks. With three, whose parts happen to have the length of their own slice(1, 4), six rows are stored, not
#   three, and each rank's last row is there twice. No other word is said.
# Who meets it: who stores a cut through a box, or its last plane, and tried that with another number of ranks.
# Instead: only slice(None) and numbers from 0 to N - 1: u.write(file, "u", step, [-1 % N, slice(None)]).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install \
    python3-mpi4py-fft=2.0.4-1+b4 python3-h5py-mpi=3.7.0-8 openmpi-bin |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack PYTHONPATH=$T/usr/lib/python3/dist-packages
export PATH=$T/usr/bin:$PATH OPENBLAS_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_io=romio321
[ ! -d "$libraries/openmpi" ] || export OPAL_PREFIX=$T/usr
cat >program.py <<'P'
import h5py, numpy
from mpi4py import MPI
from mpi4py_fft import DistArray
world = MPI.COMM_WORLD
u = DistArray((6, 2))
values = numpy.arange(1, 13).reshape(6, 2)
u[...] = values[u.local_slice()]
cuts = {"row 4": 4, "slice(1, 4)": slice(1, 4), "row -1": -1, "row 9": 9}
refused = set()
for step, row in enumerate(cuts.values()):
    try: u.write(f"rows{world.size}.h5", f"u{step}", 0, [row, slice(None)])
    except TypeError: refused.add(step)
last = u.get((-1, slice(None)))
if world.rank == 0:
    print("ranks", world.size)
    with h5py.File(f"rows{world.size}.h5") as file:
        for step, text in enumerate(cuts):
            cut = []
            file[f"u{step}"].visititems(lambda name, item: cut.append(item) if name.endswith("/0") else None)
            print(f"{text}: {'TypeError' if step in refused else cut[0][...].astype(int).tolist()}")
    print("get row -1:", last.astype(int).tolist(), flush=True)
P
for ranks in 1 2 3; do
    timeout -k 5 60 mpirun.openmpi --oversubscribe -n $ranks /usr/bin/python3 program.py 2>&1
done | tee out
diff - out <<'P'
ranks 1
row 4: [9, 10]
slice(1, 4): TypeError
row -1: [0, 0]
row 9: [0, 0]
get row -1: [0, 0]
ranks 2
row 4: [9, 10]
slice(1, 4): TypeError
row -1: [0, 0]
row 9: [0, 0]
get row -1: [0, 0]
ranks 3
row 4: [9, 10]
slice(1, 4): [[3, 4], [3, 4], [7, 8], [7, 8], [11, 12], [11, 12]]
row -1: [0, 0]
row 9: [0, 0]
get row -1: [0, 0]
P
echo "as observed: zeros where a row from the end was to be stored, and repeated rows for a slice"
