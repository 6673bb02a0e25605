#!/usr/bin/env bash
# What: `sbatch next.sh` as the last line of a job, here an array's task; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: the new job has the environment of one that is submitted at the head: its own SLURM_ variables, and none of the
#   old job's. SLURM_ARRAY_TASK_ID is 'set' for array jobs, SLURM_NTASKS to --ntasks, 'if specified'.
# Happens: variables that the new job has no value for keep the old job's: SLURM_ARRAY_TASK_ID (and _JOB_ID), though it
#   is no array, and SLURM_NTASKS, which srun takes for its -n: it starts four processes in a job of one task, or, where
#   the job has fewer processors, none: 'More processors requested than permitted'.
# Who meets it: chains of jobs, and a job that collects the results: its program runs several times at once on one file,
#   and scripts that look whether SLURM_ARRAY_TASK_ID is set (or tools such as submitit) take it for a task of the
#   array.
# Instead: `env -u SLURM_NTASKS -u SLURM_NPROCS -u SLURM_ARRAY_TASK_ID sbatch` (--export=NONE keeps all SLURM_
#   variables).
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
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >next.sh <<'C'
#!/bin/bash
echo "$1: array's task ${SLURM_ARRAY_TASK_ID:-none}, SLURM_NTASKS ${SLURM_NTASKS:-none}," \
    "srun starts $(srun echo process | wc -l)"
C
cat >first.sh <<'C'
#!/bin/bash
sbatch -W -c 4 -o in-job next.sh "in a job"
sbatch -W -c 4 -n 1 -o in-job-n1 next.sh "in a job, -n 1"
env -u SLURM_NTASKS -u SLURM_NPROCS -u SLURM_ARRAY_TASK_ID sbatch -W -c 4 -o in-job-unset next.sh "in a job, unset"
C
sbatch -W -c 4 -o at-head next.sh "at the head"
sbatch -W --array=7 -n 4 -o first.out first.sh
cat at-head in-job in-job-n1 in-job-unset | tee out
diff - out <<'P'
at the head: array's task none, SLURM_NTASKS none, srun starts 1
in a job: array's task 7, SLURM_NTASKS 4, srun starts 4
in a job, -n 1: array's task 7, SLURM_NTASKS 1, srun starts 1
in a job, unset: array's task none, SLURM_NTASKS none, srun starts 1
P
echo "as observed: a job that a job submits has SLURM_NTASKS and SLURM_ARRAY_TASK_ID of the other"
