#!/usr/bin/env bash
# What: MPI_Put and MPI_Win_flush of 4 bytes to a rank that is at its own work; PyPI mpich 5.0.2, mpi4py 4.1.2, ch4:ofi, provider tcp.
# Guess: the flush returns when the bytes are in the target's memory, as the MPI standard asks (complete at origin and target).
# Happens: it returns at once. The target's word keeps its old value for the rest of its work, 1.7 s here, and changes when the
#   target calls MPI. Over the provider sockets the flush waits for the target. So a put and flush over tcp takes less than half
#   a round trip, and a latency table of it compares a send with a completion.
# Who meets it: programs that put, flush and then tell a third process (or a file) that the data is there; who compares networks.
# Instead: MPI_Fetch_and_op or MPI_Get after the put to the same target and location, which cannot return before; or a message
#   from the target.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cat >"$T/program.py" <<'P'
import array, time
from mpi4py import MPI
world = MPI.COMM_WORLD
memory = bytearray(64)
window = MPI.Win.Create(memory, 1, comm=world)
window.Lock_all()
word = lambda: int.from_bytes(memory[:4], "little")
window.Put(array.array("i", [0]), 1 - world.rank, 8)  # the connection is there from here on
window.Flush(1 - world.rank)
world.Barrier()
if world.rank == 0:
    time.sleep(2)
    print("target: the word after 2 s of its own work is", word(), flush=True)
else:
    time.sleep(0.3)
    begin = time.monotonic()
    window.Put(array.array("i", [42]), 0, 0)
    window.Flush(0)
    waited = time.monotonic() - begin > 1
    print("origin: the flush returned", "with the target" if waited else "at once", flush=True)
world.Barrier()
if world.rank == 0:
    window.Sync()
    print("target: the word after a barrier is", word(), flush=True)
window.Unlock_all()
window.Free()
P
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install --no-deps mpich==5.0.2 mpi4py==4.1.2
run() { # provider
    echo "provider $1:"
    PATH="$T/env/bin:$PATH" LD_LIBRARY_PATH="$T/env/lib" MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=$1 \
        FI_TCP_IFACE=lo FI_SOCKETS_IFACE=lo timeout -k 5 60 "$T/env/bin/mpiexec" -n 2 "$T/env/bin/python" "$T/program.py" \
        </dev/null | tee "$T/$1.out"
}
run tcp
run sockets
for line in 'origin: the flush returned at once' 'own work is 0' 'after a barrier is 42'; do grep -qF "$line" "$T/tcp.out"; done
for line in 'origin: the flush returned with the target' 'after a barrier is 42'; do grep -qF "$line" "$T/sockets.out"; done
echo "as observed: over tcp MPI_Win_flush returns before the target has the bytes"
