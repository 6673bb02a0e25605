#!/usr/bin/env bash
# What: qsub -p, Debian slurm-wlm-torque 22.05.8-4+deb12u3.
# Guess: PBS's priority of -1024 to 1023, the higher the sooner, becomes Slurm's, with the sign turned for --nice.
# Happens: the number goes to sbatch as --nice as it is: the job that its user puts first comes last. Nothing is said.
# Who meets it: users with scripts for PBS, on a cluster with Slurm and Debian's wrappers.
# Instead: sbatch --nice=100 for jobs that can wait; only administrators may give a negative one.
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
fields='Nice'
{
    asked -p 100
    asked
    asked -p -100
    echo "by priority: $(for job in 1 2 3; do usr/bin/scontrol release $job; done; usr/bin/squeue -h -S -p -o %i | tr '\n' ' ')"
} | tee out
kill %1; wait || true
diff - out <<'P'
qsub -p 100: status 0, Nice=100 
qsub : status 0, Nice=0 
qsub -p -100: status 0, Nice=-100 
by priority: 3 2 1 
P
echo "as observed: the higher the priority that is asked for, the later the job"
