#!/usr/bin/env bash
# What: `SlurmProvider(nodes_per_block=2)` of Parsl; PyPI parsl 2026.10.26, Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: a pool of workers on each of the two nodes, or a warning that the launcher cannot do that, as SimpleLauncher
#   and WrappedLauncher give.
# Happens: the default launcher starts both pools on the first node. This one has twice as many workers as
#   max_workers_per_node allows; the second is allocated, and idle to the end. Nothing is said.
# Who meets it: who raises nodes_per_block of a configuration that works on one node: with workers that fill a node, no
#   task runs faster and the bill is twice as high; where memory sets the number of workers, it runs out.
# Instead: launcher=SrunLauncher(), or one node for each block and more blocks.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install parsl==2026.10.26
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
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=4
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >program.py <<'P'
import os, sys
from collections import Counter
import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SingleNodeLauncher, SrunLauncher
from parsl.providers import SlurmProvider

@parsl.python_app
def where():
    import os, time
    time.sleep(1)
    return os.environ["SLURMD_NODENAME"], os.getpid()

launcher = {"launcher": SrunLauncher()} if sys.argv[1] == "SrunLauncher" else {}
provider = SlurmProvider(nodes_per_block=2, init_blocks=1, max_blocks=1, walltime="00:05:00", **launcher)
executor = HighThroughputExecutor(address="192.0.2.1", max_workers_per_node=2, provider=provider)
with parsl.load(Config(executors=[executor], run_dir=sys.argv[1])):
    done = {task.result() for task in [where() for _ in range(40)]}
    workers = Counter(node for node, _ in done)
    print(f"{sys.argv[1]}: workers on pc1 {workers['pc1']}, on pc2 {workers['pc2']}", flush=True)
P
export PATH=$T/v/bin:$PATH
for launcher in default SrunLauncher; do
    timeout 120 python program.py $launcher 2>errors || { cat errors; exit 1; }
    while [ -n "$(squeue -h)" ]; do sleep 0.2; done
done | tee out
diff - out <<'P'
default: workers on pc1 4, on pc2 0
SrunLauncher: workers on pc1 2, on pc2 2
P
echo "as observed: the default launcher leaves the second node idle"
