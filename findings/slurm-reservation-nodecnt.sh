#!/usr/bin/env bash
# What: `scontrol create reservation ... nodecnt=3` while one of three nodes is drained or reserved already; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: an error, as there is for corecnt=20 of 12, for nodecnt=2 where one node has the feature, and for a node that is named and is reserved. The
#   manual: 'identify number of nodes to be reserved'.
# Happens: 'Reservation created', status 0, and it holds two nodes. nodecnt=9 of a cluster of three gives what there is, too.
# Who meets it: a small cluster that is reserved for a course or a deadline, weeks before, while a PC is drained for repair or in another reservation:
#   the reservation is a node short, other people's jobs start on that one, and the job of three nodes inside the reservation waits.
# Instead: name the nodes (nodes=pc[1-3]): drained ones are taken, and reserved ones are refused; or compare NodeCnt in `scontrol show reservation`.
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
mkdir -m 755 state munge spool spool/pc1 spool/pc2 spool/pc3 && chmod 755 "$T"
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
NodeName=pc3 NodeAddr=192.0.2.1 Port=7003 CPUs=4 Feature=big
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for i in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2 pc3; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
ready() { for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle idle" ] || break; sleep 0.1; done; }
ready
try() { # what is asked for
    local result=0
    scontrol create reservation reservationname=course users=root starttime=now+1hour duration=60 "$@" >said 2>&1 || result=$?
    echo "$*: status $result, $(scontrol -o show reservation course 2>/dev/null | grep -oE ' Nodes=[^ ]+| NodeCnt=[0-9]+' | xargs || true)"
    [ $result != 0 ] || scontrol delete reservationname=course
}
{
    try nodecnt=3
    try nodecnt=9
    try corecnt=20
    try nodecnt=2 features=big
    scontrol update nodename=pc2 state=drain reason=fan
    echo "pc2 is drained"
    try nodecnt=3
    try nodes=pc[1-3]
    scontrol update nodename=pc2 state=resume; ready
    scontrol create reservation reservationname=other users=root starttime=now+1hour duration=60 nodes=pc1 >/dev/null
    echo "pc1 is reserved"
    try nodecnt=3
    try nodes=pc[1-3]
} | tee out
diff - out <<'P'
nodecnt=3: status 0, Nodes=pc[1-3] NodeCnt=3
nodecnt=9: status 0, Nodes=pc[1-3] NodeCnt=3
corecnt=20: status 1, 
nodecnt=2 features=big: status 1, 
pc2 is drained
nodecnt=3: status 0, Nodes=pc[1,3] NodeCnt=2
nodes=pc[1-3]: status 0, Nodes=pc[1-3] NodeCnt=3
pc1 is reserved
nodecnt=3: status 0, Nodes=pc[2-3] NodeCnt=2
nodes=pc[1-3]: status 1, 
P
echo "as observed: a reservation of three nodes has two, and is created all the same"
