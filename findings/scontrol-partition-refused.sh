#!/usr/bin/env bash
# What: `scontrol update partitionname=all nodes=...` and `scontrol create partitionname=...` with a node that is not there; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: 'Invalid node name specified', status 1, and nothing changes, because the list is checked before it is used.
# Happens: status 1, and the partition has only those nodes of the list that are there: sinfo and new jobs go by that. `scontrol show partition` still lists the
#   old nodes, beside the new TotalNodes. A partition that was to be created is there, with the nodes before the wrong one,
#   and 'Nodes=(null)'; the second try, spelled right, is refused, too.
#   DefaultTime above MaxTime is the other way round: status 0, and no default is set.
# Who meets it: who adds a PC to a partition before slurm.conf knows it, or misspells one: by 'error' the change was refused, but a part of the cluster takes no more
#   jobs, and those that ask for its nodes wait.
# Instead: after an error, `scontrol update` with the old list (or `scontrol reconfigure`), `scontrol delete partitionname=...`; compare with `sinfo`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    ln -s slurmctld-wlm usr/sbin/slurmctld     # by its name it knows what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
usr/sbin/munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" --seed-file="$T/munge/seed"
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc0(192.0.2.1)
PluginDir=$libraries/slurm-wlm
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
NodeName=pc[1-3] NodeAddr=192.0.2.[2-4] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
P
hostname pc0 2>/dev/null || true
usr/sbin/slurmctld -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
try() {
    local result=0
    usr/bin/scontrol "$@" >said 2>&1 || result=$?
    echo "$*: status $result, $(grep -oE 'Invalid [a-z ]+' said || echo 'not a word')"
}
seen() { # partition, what
    echo "  $(usr/bin/scontrol -o show partition "$1" | grep -oE " ($2)=[^ ]+" | xargs); sinfo: <$(usr/bin/sinfo -h -p "$1" -o %N)>"
}
{
    seen all '(Total)?Nodes'
    try update partitionname=all nodes=pc3,pc4; seen all '(Total)?Nodes'
    try update partitionname=all 'nodes=pc[1-3]'; seen all '(Total)?Nodes'
    try create partitionname=new nodes=pc3,pc4; seen new '(Total)?Nodes'
    try create partitionname=new nodes=pc3
    try update partitionname=all maxtime=60 defaulttime=120; seen all 'MaxTime|DefaultTime'
} | tee out
diff - out <<'P'
  Nodes=pc[1-3] TotalNodes=3; sinfo: <pc[1-3]>
update partitionname=all nodes=pc3,pc4: status 1, Invalid node name specified
  Nodes=pc[1-3] TotalNodes=1; sinfo: <pc3>
update partitionname=all nodes=pc[1-3]: status 0, not a word
  Nodes=pc[1-3] TotalNodes=3; sinfo: <pc[1-3]>
create partitionname=new nodes=pc3,pc4: status 1, Invalid node name specified
  Nodes=(null) TotalNodes=1; sinfo: <pc3>
create partitionname=new nodes=pc3: status 1, Invalid partition name specified
update partitionname=all maxtime=60 defaulttime=120: status 0, not a word
  DefaultTime=NONE MaxTime=01:00:00; sinfo: <pc[1-3]>
P
echo "as observed: a change that is refused takes nodes from the partition, and creates one"
