#!/usr/bin/env bash
# What: `scancel ID` of a job that is not there; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: an error and status 1, as scontrol hold, scontrol requeue and scancel of a step (`scancel ID.0`) have it. The manual's -Q, 'do not
#   report an error if the specified job is already completed', says that there is an error without it.
# Happens: not a word and status 0, for an unknown id, for an index that the array does not have (2_7 of 1-3), and for an index of a job
#   that is no array (1_1). -v prints 'Invalid job id specified', still with 0.
# Who meets it: a digit wrong in the id: the job that was to be ended runs on through the night, and the person has seen no error; scripts
#   that take the status for 'is cancelled' and start the next one on the same files.
# Instead: `scontrol show job ID` first, or squeue -j ID afterwards, or `scancel -v`.
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
usr/bin/sbatch -H --wrap=true >/dev/null; usr/bin/sbatch -H --array=1-3 --wrap=true >/dev/null
try() {
    local result=0
    "$@" >said 2>&1 || result=$?
    echo "${*#usr/bin/}: status $result, says $(grep -m 1 -o 'Invalid job id specified' said || echo nothing)"
}
{
    for id in 4242 2_7 1_1 4242.0; do try usr/bin/scancel $id; done
    try usr/bin/scancel -v 4242
    try usr/bin/scontrol hold 4242
    echo "left: $(usr/bin/squeue -h -S i -o %i | xargs)"
} | tee out
kill %1; wait || true
diff - out <<'P'
scancel 4242: status 0, says nothing
scancel 2_7: status 0, says nothing
scancel 1_1: status 0, says nothing
scancel 4242.0: status 1, says Invalid job id specified
scancel -v 4242: status 0, says Invalid job id specified
scontrol hold 4242: status 1, says Invalid job id specified
left: 1 2_[1-3]
P
echo "as observed: scancel of a job that is not there is silent and succeeds"
