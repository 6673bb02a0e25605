#!/usr/bin/env bash
# What: scontrol update with NumTasks or CPUsPerTask for a job that waits; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: the job runs as if it had been submitted so: -n4 is 4 processors, and srun starts 4 processes.
# Happens: `scontrol show job` has the new numbers, and the job does not. NumTasks=4 changes nothing: the job has 2 processors.
#   With NumCPUs=4, too, it has 4, but SLURM_NTASKS is the old 2, and srun starts 2 processes. NumTasks=2 NumCPUs=2 of a job
#   with 4 tasks makes its srun fail. With CPUsPerTask=2 it has 2 tasks, SLURM_CPUS_PER_TASK=2, and 2 processors, not 4.
#   The status is 0.
# Who meets it: those who make a waiting job smaller or larger, so that it fits: threads share processors, or half of
#   them are idle.
# Instead: scancel and sbatch again; or `srun -n 4` with the number in the script.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    version=22.05.8-4+deb12u3
    apt-get download -q slurmctld=$version slurmd=$version slurm-client=$version slurm-wlm-basic-plugins=$version \
        libslurm38=$version munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 \
        >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    for name in slurmctld slurmd slurmstepd; do ln -s $name-wlm usr/sbin/$name; done    # its name tells it what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf HOME=$T
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool spool/pc1 spool/pc2 && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
cat >slurm.conf <<C
ClusterName=lab
SlurmctldHost=head(192.0.2.1)
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd-%n.pid
SlurmdSpoolDir=$T/spool/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=4
MinJobAge=300
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >script <<'C'
#!/bin/sh
echo "SLURM_NTASKS=$SLURM_NTASKS SLURM_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK, processors: $SLURM_JOB_CPUS_PER_NODE, srun:" \
    "$(srun -Q echo process | wc -l) processes"
C
try() { # options of sbatch, update
    local job state update
    rm -f output; read -ra update <<<"$2"
    # shellcheck disable=SC2086
    job=$(sbatch --parsable -H -o output $1 script)
    [ -z "$2" ] || scontrol update jobid="$job" "${update[@]}"
    echo "sbatch $1${2:+, then $2}: $(scontrol show job "$job" | grep -oE '(NumCPUs|NumTasks|CPUs/Task)=[0-9]*' | xargs)"
    scontrol release "$job"
    for _ in $(seq 300); do
        state=$(squeue -h -j "$job" -o %T 2>/dev/null || true)
        [ -n "$state" ] && [ "$state" != COMPLETED ] || break
        sleep 0.1
    done
    if [ -s output ]; then sed 's/^/  /' output; else echo "  still ${state:-gone} after 30 s"; scancel "$job"; fi
}
{
    try '-n2' ''
    try '-n4' ''
    try '-n2' 'NumTasks=4'
    try '-n2' 'NumTasks=4 NumCPUs=4'
    try '-n4' 'NumTasks=2 NumCPUs=2'
    try '-n2 -c2' ''
    try '-n2 -c1' 'CPUsPerTask=2'
} | tee out
diff - out <<'C'
sbatch -n2: NumCPUs=2 NumTasks=2 CPUs/Task=1
  SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=, processors: 2, srun: 2 processes
sbatch -n4: NumCPUs=4 NumTasks=4 CPUs/Task=1
  SLURM_NTASKS=4 SLURM_CPUS_PER_TASK=, processors: 4, srun: 4 processes
sbatch -n2, then NumTasks=4: NumCPUs=2 NumTasks=4 CPUs/Task=1
  SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=, processors: 2, srun: 2 processes
sbatch -n2, then NumTasks=4 NumCPUs=4: NumCPUs=4 NumTasks=4 CPUs/Task=1
  SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=, processors: 4, srun: 2 processes
sbatch -n4, then NumTasks=2 NumCPUs=2: NumCPUs=2 NumTasks=2 CPUs/Task=1
  srun: error: Unable to create step for job 5: More processors requested than permitted
  SLURM_NTASKS=4 SLURM_CPUS_PER_TASK=, processors: 2, srun: 0 processes
sbatch -n2 -c2: NumCPUs=4 NumTasks=2 CPUs/Task=2
  SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=2, processors: 4, srun: 2 processes
sbatch -n2 -c1, then CPUsPerTask=2: NumCPUs=2 NumTasks=2 CPUs/Task=2
  SLURM_NTASKS=2 SLURM_CPUS_PER_TASK=2, processors: 2, srun: 2 processes
C
echo "as observed: NumTasks and CPUsPerTask of scontrol change what is shown, not the job"
