#!/usr/bin/env bash
# What: submit_job(dependency_list=[2, 3]) of pysqa on Slurm; PyPI pysqa 1.1.1, Debian Slurm 22.05.8-4+deb12u3.
# Guess: the job waits until both have succeeded: one of two with afterok is a job that has to.
# Happens: the line is `--dependency=afterok:2,3`, with a comma, which Slurm reads as afterok:2,afterany:3: only the first job
#   has to succeed (see sbatch-afterok-comma). After the first, all may fail. No word from either.
# Who meets it: a job that collects the results of several, with pysqa or pyiron: it runs though some of them failed. With
#   Torque the list is joined by colons, and right.
# Instead: an own template with `--dependency=afterok:{{ dependency_list | join(':') }}`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install pysqa==1.1.1
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
cat >program.py <<'P'
import os, time
from pysqa import QueueAdapter
from pysqa.wrapper.slurm import template
adapter = QueueAdapter(queue_type="SLURM")
def submit(name, **options):
    return adapter.submit_job(job_name=name, working_directory=os.path.abspath(name), cores=1, partition="all", **options)
def show(job): return os.popen(f"scontrol -o show job {job}").read()
def end(job):
    while not any(f"JobState={s} " in show(job) for s in ("COMPLETED", "FAILED")) and "NeverSatisfied" not in show(job): time.sleep(0.1)
    return show(job).split("JobState=")[1].split()[0]
good, bad = submit("good", command="sleep 3"), submit("bad", command="sleep 3; false")
jobs = {}
for name, kind in ("comma", template), ("colon", template.replace("join(',')", "join(':')")):
    jobs[name] = submit(name, command="echo ran", dependency_list=[good, bad], submission_template=kind)
    asked = [line for line in open(f"{name}/run_queue.sh").read().split("\n") if "dependency" in line][0]
    taken = show(jobs[name]).split(" Dependency=")[1].split()[0].replace("(unfulfilled)", "")
    print(f"{name}: {asked}, taken as {taken}", flush=True)
for name, job in ("good", good), ("bad", bad), *jobs.items(): print(f"{name}: {end(job)}", flush=True)
P
timeout 100 v/bin/python program.py | tee out
diff - out <<'P'
comma: #SBATCH --dependency=afterok:1,2, taken as afterok:1,afterany:2
colon: #SBATCH --dependency=afterok:1:2, taken as afterok:1,afterok:2
good: COMPLETED
bad: FAILED
comma: COMPLETED
colon: PENDING
P
echo "as observed: with pysqa's template only the first job of a list has to succeed"
