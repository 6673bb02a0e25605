#!/usr/bin/env bash
# What: DistArray.get of mpi4py-fft; Debian python3-mpi4py-fft 2.0.4-1+b4.
# Guess: it collects a part of a distributed array on rank 0, over MPI, and touches no file.
# Happens: it goes through a file tmp.h5 in the working directory, which it writes over without a question, and deletes.
#   A tmp.h5 that was there is lost, and nothing is said.
# Who meets it: who has data of his own in tmp.h5, and two jobs in one directory, which may read each other's numbers.
# Instead: in a directory of its own for each job, or gather with mpi4py: u.shape and u.local_slice() of all ranks.
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
import h5py, numpy, os
from mpi4py import MPI
from mpi4py_fft import DistArray
world = MPI.COMM_WORLD
if world.rank == 0:
    with h5py.File("tmp.h5", "w") as file: file["results"] = numpy.ones(1000)
    print("before:", sorted(name for name in os.listdir(".") if name.endswith(".h5")))
world.barrier()
u = DistArray((6, 2)); u[...] = 7
row = u.get((0, slice(None)))
if world.rank == 0:
    print("row 0:", row.astype(int).tolist())
    print("after:", sorted(name for name in os.listdir(".") if name.endswith(".h5")), flush=True)
P
timeout -k 5 60 mpirun.openmpi --oversubscribe -n 2 /usr/bin/python3 program.py 2>&1 | tee out
diff - out <<'P'
before: ['tmp.h5']
row 0: [7, 7]
after: []
P
echo "as observed: get writes over tmp.h5 in the working directory, and deletes it"
