#!/usr/bin/env bash
# What: `scontrol update jobid=ID timelimit=0`, of a job that runs or waits; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: no limit, as with `sbatch -t 0` ('a time limit of zero requests that no time limit be imposed'). scontrol's manual has the same formats and no word on zero.
# Happens: the limit is 00:00:00, with status 0. A job that runs is ended within half a minute as TIMEOUT; one that waits is started, and ended likewise.
#   `scontrol update partitionname=all maxtime=0` is no time at all, too: no job of the partition starts any more (PartitionTimeLimit).
# Who meets it: an administrator who is asked in the evening to take the limit off a job that has run for days.
# Instead: timelimit=UNLIMITED, maxtime=UNLIMITED.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurmd=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 \
        munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    for name in slurmctld slurmd slurmstepd; do ln -s $name-wlm usr/sbin/$name; done     # by its name it knows what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool spool/pc1 && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" --seed-file="$T/munge/seed"
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc1(192.0.2.1)
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
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4 RealMemory=100
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for i in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
ready() { for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle" ] || break; sleep 0.1; done; }
ready
state() { scontrol -o show job "$1" | grep -oE '(JobState|TimeLimit|Reason)=[^ ]+' | sort | xargs; }
reach() { for _ in $(seq 400); do case $(state "$1") in *$2*) break ;; esac; sleep 0.2; done; state "$1"; }
free=$(sbatch --parsable -t 0 --mem=10 -o /dev/null --wrap 'sleep 100')
runs=$(sbatch --parsable -t 60 --mem=10 -o /dev/null --wrap 'sleep 100')
waits=$(sbatch --parsable -H -t 60 --mem=10 -o /dev/null --wrap 'sleep 100')
{
    echo "sbatch -t 0: $(reach "$free" RUNNING)"
    echo "sbatch -t 60: $(reach "$runs" RUNNING)"
    result=0; scontrol update jobid="$runs" timelimit=0 || result=$?
    scontrol update jobid="$waits" timelimit=0; scontrol release "$waits"
    echo "timelimit=0: status $result, $(reach "$runs" TIMEOUT)"
    echo "of one that waits: $(reach "$waits" TIMEOUT)"
    scontrol update partitionname=all maxtime=0
    next=$(sbatch --parsable -t 5 --mem=10 -o /dev/null --wrap true)
    echo "maxtime=0: $(reach "$next" PartitionTimeLimit)"
    scontrol update partitionname=all maxtime=UNLIMITED
    echo "maxtime=UNLIMITED: $(reach "$next" COMPLETED)"
} | tee out
diff - out <<'P'
sbatch -t 0: JobState=RUNNING Reason=None TimeLimit=UNLIMITED
sbatch -t 60: JobState=RUNNING Reason=None TimeLimit=01:00:00
timelimit=0: status 0, JobState=TIMEOUT Reason=TimeLimit TimeLimit=00:00:00
of one that waits: JobState=TIMEOUT Reason=TimeLimit TimeLimit=00:00:00
maxtime=0: JobState=PENDING Reason=PartitionTimeLimit TimeLimit=00:05:00
maxtime=UNLIMITED: JobState=COMPLETED Reason=None TimeLimit=00:05:00
P
echo "as observed: no limit is zero for sbatch, and zero ends the job for scontrol"
