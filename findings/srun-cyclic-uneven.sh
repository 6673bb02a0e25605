#!/usr/bin/env bash
# What: `srun -N2 -n6 -m cyclic` and `-m plane=1` on two nodes of four processors each; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: three tasks on each node, round-robin, with both. The manual says of plane: 'The number of tasks distributed to each node is the same as for cyclic'.
# Happens: four processors of the first node are allocated and two of the second, whatever -m asks for. cyclic then distributes tasks until the second
#   is full: 4 and 2. plane=1 gives 3 and 3: three tasks share two processors of the second node while one of the first is idle. --spread-job changes nothing.
# Who meets it: who asks for cyclic to give each rank more of a node's memory bandwidth, or to have halves of the same size: the job has twice as many ranks
#   on one PC as on the other, or, with plane, ranks that wait for one that has half a processor. `srun` in a job of `sbatch -N2 -n6` does likewise.
# Instead: --ntasks-per-node=3, or --exclusive.
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
mkdir -m 755 state munge spool spool/pc1 spool/pc2 && chmod 755 "$T"
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
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=4
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for i in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
ready() { for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done; }
ready
cat >job <<'P'
echo "allocated: $SLURM_JOB_CPUS_PER_NODE"
for how in cyclic plane=1; do echo "-m $how: $(srun -l -m $how printenv SLURMD_NODENAME 2>/dev/null | sort -n | cut -d' ' -f2 | xargs)"; done
P
{
    for options in "-m cyclic" "-m plane=1" "-m cyclic --ntasks-per-node=3" "-m cyclic --exclusive"; do
        echo "salloc -N2 -n6 $options"
        ready; salloc -Q -N2 -n6 $options bash job
    done
} | tee out
diff - out <<'P'
salloc -N2 -n6 -m cyclic
allocated: 4,2
-m cyclic: pc1 pc2 pc1 pc2 pc1 pc1
-m plane=1: pc1 pc2 pc1 pc2 pc1 pc2
salloc -N2 -n6 -m plane=1
allocated: 4,2
-m cyclic: pc1 pc2 pc1 pc2 pc1 pc1
-m plane=1: pc1 pc2 pc1 pc2 pc1 pc2
salloc -N2 -n6 -m cyclic --ntasks-per-node=3
allocated: 3(x2)
-m cyclic: pc1 pc2 pc1 pc2 pc1 pc2
-m plane=1: pc1 pc2 pc1 pc2 pc1 pc2
salloc -N2 -n6 -m cyclic --exclusive
allocated: 4(x2)
-m cyclic: pc1 pc2 pc1 pc2 pc1 pc2
-m plane=1: pc1 pc2 pc1 pc2 pc1 pc2
P
echo "as observed: cyclic gives 4 and 2 tasks, plane=1 puts three on two processors"
