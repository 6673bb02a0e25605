#!/usr/bin/env bash
# What: Slurm().squeue.jobs of simple_slurm with an array that runs; PyPI simple-slurm 0.3.6, Debian Slurm
#   22.05.8-4+deb12u3.
# Guess: each task has a key by which cancel_job() of that library finds it: 1_2, or the number of a job.
# Happens: the key is int("1_2"), which Python reads as 12: another job's number. cancel_job(12) ends that job, and the
#   task runs on. Where both are in the queue, one of the two is missing in the list. No word of any of that.
# Who meets it: programs that cancel what get_filtered_jobs(NAME) lists: with job 1204 as an array, another job of the
#   user, or for an administrator anybody's, is cancelled. (Tasks that wait are 12_[3-9], and int() an error.)
# Instead: cancel_job(job["JOBID"]) of the values.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install simple-slurm==0.3.6
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
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=8
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=8
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >program.py <<'C'
import os, subprocess, sys, time
from simple_slurm import Slurm
def show():
    names = dict(line.split() for line in os.popen("squeue -h -t R -o '%i %j'"))
    print("running:", ", ".join(f"{key} {names[key]}" for key in ("1_1", "1_2", "11", "12") if key in names), flush=True)
def wait(test):
    for _ in range(100):
        if test(os.popen("squeue -h -t R -o %j").read().split()): return
        time.sleep(0.1)
Slurm(array="1-2", job_name="study", priority=10).sbatch("sleep 100", verbose=False)
wait(lambda names: len(names) == 2)
while Slurm(job_name="other").sbatch("sleep 100", verbose=False) < 12: pass
wait(lambda names: len(names) == 12)
show()
slurm = Slurm(); slurm.squeue.update_squeue()
for key, job in sorted(slurm.squeue.get_filtered_jobs("study").items()):
    print(f"key {key!r}: JOBID {job['JOBID']}, cancelled", flush=True)
    slurm.scancel.cancel_job(key)
wait(lambda names: len(names) == 10)
show()
C
timeout 200 v/bin/python program.py | tee out
diff - out <<'P'
running: 1_1 study, 1_2 study, 11 other, 12 other
key 11: JOBID 1_1, cancelled
key 12: JOBID 1_2, cancelled
running: 1_1 study, 1_2 study
P
echo "as observed: a running task of an array has another job's number as its key"
