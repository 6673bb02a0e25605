#!/usr/bin/env bash
# What: ResourceSpecV1(memory=...) of PSI/J under Slurm; PyPI psij-python 0.9.11, Debian Slurm 22.05.8-4+deb12u3.
# Guess: its own words: 'the total amount, in bytes, of memory requested for the job'. 6 GiB on two nodes are 3 each.
# Happens: each node gives 6: the total becomes Slurm's --mem, which is per node: node_count times the memory.
# Who meets it: programs that compute the total for a job. It waits for memory that it does not need, keeps it from
#   others, and is billed for it; where the total is more than one node has, the job is refused though it would fit.
# Instead: no memory=, but JobAttributes(custom_attributes={"slurm.mem-per-cpu": "3G"}).
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install psij-python==0.9.11
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
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4 RealMemory=8192
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=4 RealMemory=8192
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >program.py <<'P'
import re, subprocess, warnings; warnings.simplefilter("ignore")
from pathlib import Path
from psij import Job, JobAttributes, JobExecutor, JobSpec, ResourceSpecV1, SubmitException
from psij.executors.batch.slurm import SlurmExecutorConfig
slurm = JobExecutor.get_instance("slurm", config=SlurmExecutorConfig(
    queue_polling_interval=1, initial_queue_polling_delay=1, work_directory=Path("work").absolute()))
for nodes, memory in (1, 6), (2, 6), (2, 12), (2, None):
    attributes = JobAttributes(custom_attributes=None if memory else {"slurm.mem-per-cpu": "3G"})
    resources = ResourceSpecV1(node_count=nodes, memory=memory and memory << 30)
    job = Job(JobSpec(executable="/bin/true", resources=resources, attributes=attributes))
    text = f"{memory} GiB for {nodes} nodes of 8:" if memory else f"3 GiB for each of {nodes} processors:"
    try:
        slurm.submit(job)
    except SubmitException as problem:
        print(text, "refused")
        continue
    job.wait()
    record = subprocess.run(["scontrol", "-o", "show", "job", job.native_id], capture_output=True, text=True).stdout
    print(text, re.search(r"TRES=\S*?(mem=\w+)", record)[1])
P
timeout 200 v/bin/python program.py | tee out
diff - out <<'P'
6 GiB for 1 nodes of 8: mem=6G
6 GiB for 2 nodes of 8: mem=12G
12 GiB for 2 nodes of 8: refused
3 GiB for each of 2 processors: mem=6G
P
echo "as observed: the total is asked of each node"
