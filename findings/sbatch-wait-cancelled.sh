#!/usr/bin/env bash
# What: `sbatch --wait` of a job that is cancelled before it starts; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: a status other than 0: the job did nothing. The manual of --wait says that the status is the job's, and 1 if a signal ended it.
# Happens: 0, where the user or an administrator cancels the waiting job, and where Slurm itself does so because its dependency
#   failed (--kill-on-invalid-dep=yes). A job that is cancelled while it runs gives 1 (tried, not shown here: it takes a slurmd).
# Who meets it: `sbatch --wait step1 && sbatch --wait step2` in a script, a Makefile or a CI: what waits on the cluster when somebody
#   clears the queue is taken as done, and the next step runs on files that were never made.
# Instead: have the job write a file as its last act and test for it; or ask `sacct -X -n -o State -j ID` after --wait.
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
waits() { # how it is cancelled, options
    local result=0
    usr/bin/sbatch --wait --wrap=true "${@:2}" >said 2>&1 & local waiting=$!
    for i in $(seq 50); do grep -q '^Submitted' said && break; sleep 0.1; done
    [ "$1" != scancel ] || usr/bin/scancel "$(grep -oE '[0-9]+$' said)"
    wait $waiting || result=$?
    echo "$1: sbatch --wait gives $result, the job is $(usr/bin/scontrol -o show job "$(grep -oE '[0-9]+$' said)" | grep -oE 'JobState=[^ ]+')"
}
{
    waits scancel
    first=$(usr/bin/sbatch --parsable --wrap=true); usr/bin/scancel "$first"
    waits dependency --dependency=afterok:"$first" --kill-on-invalid-dep=yes
} | tee out
kill %1; wait || true
diff - out <<'P'
scancel: sbatch --wait gives 0, the job is JobState=CANCELLED
dependency: sbatch --wait gives 0, the job is JobState=CANCELLED
P
echo "as observed: sbatch --wait is 0 for a job that was cancelled while it waited"
