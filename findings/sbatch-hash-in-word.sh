#!/usr/bin/env bash
# What: `#` inside a word of a line #SBATCH; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: a letter like others, as in the shell, where a comment begins at the start of a word only.
# Happens: the rest of the line is a comment. `#SBATCH --comment=issue#12 --ntasks=4` has the comment 'issue' and one task, with
#   status 0 and no word, where `--ntasks=4 x` is an error. With quotes around the word it is kept, and on sbatch's own
#   command line, too.
# Who meets it: names of jobs, outputs and comments with #12, and all options that stand behind them on the line: tasks,
#   time limit, memory.
# Instead: quotes, `--comment="issue#12"`, and a line for each option.
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
try() { # options
    printf '#!/bin/sh\n#SBATCH %s\ntrue\n' "$1" >script
    status=0; job=$(sbatch --parsable -H -o /dev/null script 2>words) || status=$?
    echo "#SBATCH $1: status $status $(cut -d: -f3- words | head -n 1)"
    [ "$status" != 0 ] || scontrol show job "$job" | grep -oE '(JobName|NumTasks|TimeLimit|Comment)=[^ ]*' | xargs
}
{
    try '--comment=issue12 --ntasks=4 --time=10'
    try '--comment=issue12 --ntasks=4 --time=10 # a comment'
    try '--comment=issue#12 --ntasks=4 --time=10'
    try '--comment="issue#12" --ntasks=4 --time=10'
    try "--comment='issue#12' --ntasks=4 --time=10"
    try '--comment=issue\#12 --ntasks=4 --time=10'
    try '--job-name=run#1 --ntasks=4 --time=10'
    try '--ntasks=4 x --time=10'
} | tee out
diff - out <<'C'
#SBATCH --comment=issue12 --ntasks=4 --time=10: status 0 
JobName=script TimeLimit=00:10:00 NumTasks=4 Comment=issue12
#SBATCH --comment=issue12 --ntasks=4 --time=10 # a comment: status 0 
JobName=script TimeLimit=00:10:00 NumTasks=4 Comment=issue12
#SBATCH --comment=issue#12 --ntasks=4 --time=10: status 0 
JobName=script TimeLimit=UNLIMITED NumTasks=1 Comment=issue
#SBATCH --comment="issue#12" --ntasks=4 --time=10: status 0 
JobName=script TimeLimit=00:10:00 NumTasks=4 Comment=issue#12
#SBATCH --comment='issue#12' --ntasks=4 --time=10: status 0 
JobName=script TimeLimit=00:10:00 NumTasks=4 Comment=issue#12
#SBATCH --comment=issue\#12 --ntasks=4 --time=10: status 0 
JobName=script TimeLimit=00:10:00 NumTasks=4 Comment=issue#12
#SBATCH --job-name=run#1 --ntasks=4 --time=10: status 0 
JobName=run TimeLimit=UNLIMITED NumTasks=1
#SBATCH --ntasks=4 x --time=10: status 255  Invalid directive found in batch script: x
C
echo "as observed: # inside a word of #SBATCH begins a comment"
