#!/usr/bin/env bash
# What: `sbatch -o run-%A_%a.out` of a job that is no array; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: the index is empty or 0, as SLURM_ARRAY_TASK_ID is not set; or the pattern stays as it is. The manual: '%a Job array ID (index)
#   number', and of no array not a word.
# Happens: the file is run-1_4294967294.out: the largest number but one stands for 'none'. %A is the job's id, as hoped.
# Who meets it: one job script for arrays and single runs: tools that sort or count by the index find a run number four thousand
#   million; `for i in $(seq ...)` up to the largest index does not end.
# Instead: %j in scripts that may be either, or `-o` on the command line of the array only.
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
for options in "" "--array=7"; do
    usr/bin/sbatch -H $options -o 'run-%A_%a.out' --wrap=true >/dev/null
done
for job in 1 2_7; do echo "job $job: $(usr/bin/scontrol -o show job $job | grep -oE 'StdOut=[^ ]+' | sed 's#.*/##')"; done | tee out
kill %1; wait || true
diff - out <<'P'
job 1: run-1_4294967294.out
job 2_7: run-2_7.out
P
echo "as observed: the index of a job that is no array is 4294967294"
