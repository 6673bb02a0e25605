#!/usr/bin/env bash
# What: sbatch --dependency=afterok:1,2; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: the job waits until both have ended well, as with afterok:1:2 or afterok:1,afterok:2; or the list is refused, for
#   the manual has a type with each number behind a comma.
# Happens: what has no type is taken as afterany: the job runs though job 2 failed, and the status of sbatch is 0. It is
#   the same for afternotok and for `scontrol update`.
# Who meets it: a list of jobs joined by commas, as squeue and scancel take it: `-d afterok:$(IFS=,; echo "${ids[*]}")`.
#   Only the first job counts; the sum of the results is made although some are missing.
# Instead: colons, and a look at `scontrol show job ID`, which has afterok:1,afterany:2.
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
dependency() { scontrol -o show job "$1" | grep -oP ' Dependency=\K[^ ]*' | sed 's|(unfulfilled)||g'; }
good=$(sbatch --parsable -H -o /dev/null --wrap true)
bad=$(sbatch --parsable -H -o /dev/null --wrap false)
for wanted in "afterok:$good:$bad" "afterok:$good,afterok:$bad" "afterok:$good,$bad" "afternotok:$bad,$good"; do
    status=0; job=$(sbatch --parsable -o "$T/ran.%j" -d "$wanted" --wrap 'echo ran') || status=$?
    echo "$wanted: status $status, job $job, $(dependency "$job")" >>list
done
job=$(sbatch --parsable -H -o "$T/ran.%j" --wrap 'echo ran')
status=0; scontrol update jobid="$job" dependency="afterok:$good,$bad" || status=$?
scontrol release "$job"
echo "scontrol dependency=afterok:$good,$bad: status $status, job $job, $(dependency "$job")" >>list
scontrol release "$good" "$bad"
for _ in $(seq 100); do [ "$(cat ran.* 2>/dev/null | wc -l)" -lt 3 ] || break; sleep 0.1; done
sleep 2
while read -r line; do
    job=$(grep -oP 'job \K[0-9]+' <<<"$line")
    echo "${line/job $job, /} $(cat "ran.$job" 2>/dev/null || squeue -h -j "$job" -o %r)"
done <list | tee out
diff - out <<'C'
afterok:1:2: status 0, afterok:1,afterok:2 DependencyNeverSatisfied
afterok:1,afterok:2: status 0, afterok:1,afterok:2 DependencyNeverSatisfied
afterok:1,2: status 0, afterok:1,afterany:2 ran
afternotok:2,1: status 0, afternotok:2,afterany:1 ran
scontrol dependency=afterok:1,2: status 0, afterok:1,afterany:2 ran
C
echo "as observed: behind a comma, a job without a type is one that may fail"
