#!/usr/bin/env bash
# What: Slurm.srun() of simple_slurm after add_cmd(); PyPI simple-slurm 0.3.6, Debian Slurm 22.05.8-4+deb12u3.
# Guess: all commands run as tasks of the job, one after another. README: they 'will be executed in the order they are
#   added before the main command specified in sbatch or srun'. An option given as True is handed on, as by sbatch().
# Happens: `srun OPTIONS first; second` is given to a shell: the first command is the job, and the main one runs here,
#   once, without Slurm. Options given as True (exclusive, overcommit) are dropped.
# Who meets it: `module load` or `cd` as add_cmd, and the program as the argument: it runs on the head, as one process,
#   with the modules of the head. The status is 0.
# Instead: one command, as in srun("sh -c 'first; second'"), and srun_cmd="srun --exclusive".
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
cat >show <<'C'
echo "$1 command on ${SLURMD_NODENAME:-head}"
C
cat >program.py <<'C'
from simple_slurm import Slurm
slurm = Slurm(nodes=2, ntasks=2)
slurm.add_cmd("sh show 1st")
slurm.srun("sh show 2nd")
slurm = Slurm(nodes=2, ntasks=2)
slurm.srun("sh -c 'sh show 3rd; sh show 4th'")
for options, start in ({}, "srun"), (dict(exclusive=True), "srun"), ({}, "srun --exclusive"):
    Slurm(**options).srun("sh -c 'echo", str(options).replace("'", ""), f"{start}:",
        "$(scontrol show job $SLURM_JOB_ID | grep -o OverSubscribe=[A-Z]*)'", srun_cmd=start)
C
timeout 200 v/bin/python program.py | LC_ALL=C sort | tee out
diff - out <<'P'
1st command on pc1
1st command on pc2
2nd command on head
3rd command on pc1
3rd command on pc2
4th command on pc1
4th command on pc2
{exclusive: True} srun: OverSubscribe=OK
{} srun --exclusive: OverSubscribe=NO
{} srun: OverSubscribe=OK
P
echo "as observed: the second command runs on the head, and exclusive=True is dropped"
