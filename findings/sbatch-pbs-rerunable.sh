#!/usr/bin/env bash
# What: sbatch of a script with `#PBS -r n`, which says that the job must not run twice; Debian slurm-client 22.05.8-4+deb12u3.
# Guess: as --no-requeue, which is what Slurm's own qsub makes of it; or a word that it is not understood, as for `#PBS -d`.
# Happens: the line is taken, and changes nothing: the job is begun anew when its node is lost.
# Who meets it: users whose job appends to its results, and finds them twice after a node has lost power.
# Instead: #SBATCH --no-requeue
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
asked() {
    printf '#!/bin/sh\n#PBS %s\ntrue\n' "$1" >script
    job=$(usr/bin/sbatch --parsable -H script)
    echo "#PBS $1: $(usr/bin/scontrol -o show job "$job" | tr ' ' '\n' | grep "^$field=")"
}
{
    field=Requeue
    asked '-r n'
    asked '-r y'
    usr/bin/sbatch --parsable -H --no-requeue script
    usr/bin/scontrol -o show job 3 | tr ' ' '\n' | grep ^Requeue=
} | tee out
kill %1; wait || true
diff - out <<'P'
#PBS -r n: Requeue=1
#PBS -r y: Requeue=1
3
Requeue=0
P
echo "as observed: what must not be begun anew is begun anew"
