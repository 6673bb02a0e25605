#!/usr/bin/env bash
# What: qsub -l procs=N and -l ncpus=N, Debian slurm-wlm-torque 22.05.8-4+deb12u3.
# Guess: Torque's and PBS's ways to ask for processors without saying on which nodes give N, as nodes=1:ppn=N does.
# Happens: both are passed over in silence, and the job has one processor.
# Who meets it: users whose MPI job runs N ranks on one processor, or one rank, and takes N times as long.
# Instead: qsub -l nodes=1:ppn=N, or sbatch -n N
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 slurm-wlm-torque=22.05.8-4+deb12u3 libslurm-perl=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm PERL5LIB=$libraries/perl5/5.36 SLURM_CONF=$T/slurm.conf
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
printf '#!/bin/sh\ntrue\n' >job
asked() {
    job=$(perl usr/bin/qsub -h "$@" job) status=0 || status=$?
    echo "qsub $*: status $status, $(usr/bin/scontrol -o show job "$job" | tr ' ' '\n' | grep -E "^($fields)=" | sort | tr '\n' ' ')"
}
fields='NumCPUs|NumTasks'
{
    asked -l nodes=1:ppn=4
    asked -l procs=4
    asked -l ncpus=4
} | tee out
kill %1; wait || true
diff - out <<'P'
qsub -l nodes=1:ppn=4: status 0, NumCPUs=4 NumTasks=4 
qsub -l procs=4: status 0, NumCPUs=1 NumTasks=1 
qsub -l ncpus=4: status 0, NumCPUs=1 NumTasks=1 
P
echo "as observed: processors are asked for, and one is given"
