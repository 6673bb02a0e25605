#!/usr/bin/env bash
# What: MPI_Allgather on two nodes, with a column of a matrix (MPI_Type_vector) as send type and contiguous doubles as receive type; PyPI
#   impi-rt 2021.19.0, mpich 5.0.2, mpi4py 4.1.2, libfabric's tcp.
# Guess: each rank's 12 elements arrive one after the other, whichever algorithm the library takes.
# Happens: in Intel MPI algorithm 5 (I_MPI_ADJUST_ALLGATHER=5) delivers wrong elements, with status 0; algorithms 1 to 4 are
#   right. Nobody has to ask for 5: with I_MPI_FABRICS=ofi its own tuning takes it for short messages, with the default
#   fabrics shm:ofi it takes another, so whether the result is right depends on how ranks of one node are joined.
# Who meets it: who gathers columns or faces, and has set I_MPI_FABRICS=ofi.
# Instead: I_MPI_ADJUST_ALLGATHER='1:0-32767;3:32768-2147483647', or pack the column first.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces take root"; exit 0; }
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore FI_PROVIDER=tcp
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world, n, stride = MPI.COMM_WORLD, 12, 10
column = MPI.DOUBLE.Create_vector(n, 1, stride).Commit()
matrix = array.array("d", [-2.0] * (n * stride))
for i in range(n):
    matrix[i * stride] = world.rank * n + i
rows = array.array("d", [-1.0] * (n * world.size))
world.Allgather([matrix, 1, column], [rows, n, MPI.DOUBLE])
right = world.gather(all(rows[i] == i for i in range(len(rows))), root=0)
nodes = len(set(world.allgather(MPI.Get_processor_name())))
if world.rank == 0:
    print(f"right at {sum(right)} of {world.size} ranks on {nodes} nodes", flush=True)
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
install mpich mpich==5.0.2 mpi4py==4.1.2
install intel impi-rt==2021.19.0 mpi4py==4.1.2
# What hydra starts in place of ssh, to its own host as well.
cat >"$T/agent" <<'A'
#!/usr/bin/env bash
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
[ "$host" = 192.0.2.2 ] || exec bash -c "$*"
exec nsenter --target "$(cat "$T/pc2")" --net --uts bash -c "$*"
A
chmod +x "$T/agent"
T=$T unshare --net --uts bash -euo pipefail <<'S' | tee "$T/out"
hostname pc1
ip link set lo up
unshare --net --uts sleep 300 </dev/null >/dev/null 2>&1 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.05; done
echo $other >"$T/pc2"
ip link add e0 type veth peer name e0 netns $other
ip link set e0 up; ip address add 192.0.2.1/24 dev e0
nsenter --target $other --net --uts bash -c 'hostname pc2; ip link set lo up; ip link set e0 up; ip address add 192.0.2.2/24 dev e0'
run() { # words, folder, settings
    echo "$1: $(env "${@:3}" PATH="$T/$2/bin:$PATH" LD_LIBRARY_PATH="$T/$2/lib:$T/$2/opt/mpi/libfabric/lib" FI_TCP_IFACE=e0 \
        timeout -k 5 60 "$T/$2/bin/mpirun" -launcher ssh -launcher-exec "$T/agent" -iface e0 -hosts 192.0.2.1,192.0.2.2 -ppn 2 -n 4 \
        "$T/$2/bin/python" "$T/program.py" </dev/null)"
}
run "mpich 5.0.2" mpich
run "impi-rt 2021.19.0, shm:ofi" intel I_MPI_FABRICS=shm:ofi
run "impi-rt 2021.19.0, ofi" intel I_MPI_FABRICS=ofi
for algorithm in 1 2 3 4 5; do
    run "impi-rt 2021.19.0, ofi, algorithm $algorithm" intel I_MPI_FABRICS=ofi I_MPI_ADJUST_ALLGATHER=$algorithm
done
S
diff - "$T/out" <<'P'
mpich 5.0.2: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, shm:ofi: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi: right at 0 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi, algorithm 1: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi, algorithm 2: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi, algorithm 3: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi, algorithm 4: right at 4 of 4 ranks on 2 nodes
impi-rt 2021.19.0, ofi, algorithm 5: right at 0 of 4 ranks on 2 nodes
P
echo "as observed: one of Intel MPI's algorithms gathers strided columns wrong, and I_MPI_FABRICS=ofi takes it"
