#!/usr/bin/env bash
# What: priority/multifactor with PriorityWeightAge on a Slurm without slurmdbd; Debian slurmctld 22.05.8-4+deb12u3.
# Guess: a job that waits gains priority, because only fair share needs to know what was used before.
# Happens: slurmctld starts, writes 'PriorityWeightAge can only be used with SlurmDBD, ignoring' once into its log, and goes on
#   without age. `scontrol show config` still shows the weight. Nothing is said of PriorityWeightJobSize: by its
#   documentation large jobs, or with PriorityFavorSmall small ones, then pass those that wait.
# Who meets it: small clusters without accounting whose administrator wanted large jobs first but nobody to starve.
# Instead: slurmdbd, or priority/basic, which is first come, first served.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
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
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=10
NodeName=pc1 NodeAddr=192.0.2.2
PartitionName=all Nodes=ALL
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -V
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
{
    grep -o 'PriorityWeight.*' words
    usr/bin/scontrol show config | grep -E '^PriorityWeight(Age|JobSize)' | tr -s ' '
} | tee out
kill %1; wait || true
diff - out <<'P'
PriorityWeightAge can only be used with SlurmDBD, ignoring
PriorityWeightAge = 1000
PriorityWeightJobSize = 10
P
echo "as observed: age counts for nothing, and the configuration shows its weight"
