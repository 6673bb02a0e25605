#!/usr/bin/env bash
# What: scontrol update jobid=N Nice=10, of a job that is held, under priority/basic, the default; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: the job stays held, and waits with that value until it is released.
# Happens: the hold is a priority of 0, to which the difference is added: the job is not held any more, and may start. Its reason
#   is JobHeldUser until Slurm looks at it again. With Nice=0, which it has, it stays held.
# Who meets it: users who hold a job until its input is there, and meanwhile let others go first.
# Instead: PriorityType=priority/multifactor, under which it stays held; or the value before the hold
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
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
SlurmctldHost=pc1(192.0.2.1)
PluginDir=$libraries/slurm-wlm
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
NodeName=pc[1-2] NodeAddr=192.0.2.[2-3] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
{
    seen() { usr/bin/scontrol -o show job "$1" | tr ' ' '\n' | grep -E '^(Priority|Nice)=' | sort | tr '\n' ' '; echo; }
    for nice in 0 10; do
        job=$(usr/bin/sbatch --parsable -H --wrap=true)
        seen "$job"
        usr/bin/scontrol update jobid="$job" Nice="$nice" && echo "nice $nice: status 0"
        seen "$job" | sed 's/Priority=[1-9][0-9]*/Priority=more than 0/'
    done
} | tee out
kill %1; wait || true
diff - out <<'P'
Nice=0 Priority=0 
nice 0: status 0
Nice=0 Priority=0 
Nice=0 Priority=0 
nice 10: status 0
Nice=10 Priority=more than 0 
P
echo "as observed: a held job that gives way to others is held no more"
