#!/usr/bin/env bash
# What: MPI_Type_create_darray, one dimension in blocks, one block-cyclic, Fortran order; PyPI impi-rt 2021.19.0, mpich 5.0.2,
#   mpi4py 4.1.2.
# Guess: each rank's type describes its part of the array, as in every MPI since MPI-2.
# Happens: a 200 x 70 array on a 2 x 2 grid (rows in blocks, columns in blocks of 64 dealt cyclically): in Intel MPI all 4
#   ranks' types pick other elements than those they own, from the second column on. Sizes and extents are right, so
#   nothing complains. MPICH and Open MPI pick the right ones. Cyclic in both dimensions is right in Intel MPI too.
# Who meets it: parallel I/O of distributed matrices (right-hand sides, panels) by a file view of such a type.
# Instead: MPI_Type_create_subarray for the block dimension and an indexed type for the cyclic one; or another MPI.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
rows, columns, block, grid = 200, 70, 64, 2
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
for rank in range(4):
    p, q = divmod(rank, grid)
    mine = [column * rows + row for column in range(columns) if column // block % grid == q
            for row in range(p * rows // grid, (p + 1) * rows // grid)]
    part = MPI.INT.Create_darray(4, rank, [rows, columns], [MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_CYCLIC],
                                 [MPI.DISTRIBUTE_DFLT_DARG, block], [grid, grid], MPI.ORDER_F).Commit()
    whole, got = array.array("i", range(rows * columns)), array.array("i", [-1] * len(mine))
    size = "right" if (part.size, part.extent) == (4 * len(mine), 4 * len(whole)) else "wrong"
    MPI.COMM_SELF.Sendrecv([whole, 1, part], 0, 0, [got, MPI.INT], 0, 0)
    wrong = sum(a != b for a, b in zip(got, mine))
    print(f"rank {rank}: size and extent {size}, {wrong} of {len(mine)} elements are others than its own", flush=True)
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
run() { # folder, package, ranks, options of mpirun
    install "$1" "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib:$T/$1/opt/mpi/libfabric/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" ${4-} -n "$3" "$T/$1/bin/python" "$T/program.py" "$T/$1.dat" </dev/null | tee "$T/$1.out"
}
run mpich mpich==5.0.2 1
run intel impi-rt==2021.19.0 1
[ "$(grep -c 'size and extent right, 0 of' "$T/mpich.out")" = 4 ]
[ "$(grep -c 'size and extent right, [1-9][0-9]* of' "$T/intel.out")" = 4 ]
echo "as observed: Intel MPI's block times block-cyclic types select elements of other ranks"
