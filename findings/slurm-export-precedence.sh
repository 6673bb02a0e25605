#!/usr/bin/env bash
# What: --export=ALL,NAME=value of sbatch and srun where the caller has NAME, too; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: as both manuals say: with ALL, the caller's variables take precedence over those that are given.
# Happens: for srun they do. For sbatch the given value is taken, against its manual, and for `NAME=value,ALL` the caller's.
#   Nothing is said.
# Who meets it: `--export=ALL,INPUT=case2.dat` in a shell where INPUT is case1.dat: sbatch runs case2, and the same option
#   with srun, when it is tried by hand, runs case1.
# Instead: `INPUT=case2.dat sbatch ...`, or srun: without --export the environment is handed on as it is.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    version=22.05.8-4+deb12u3
    apt-get download -q slurmctld=$version slurmd=$version slurm-client=$version slurm-wlm-basic-plugins=$version \
        libslurm38=$version munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 \
        >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    for name in slurmctld slurmd slurmstepd; do ln -s $name-wlm usr/sbin/$name; done    # its name tells it what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf HOME=$T
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool spool/pc1 spool/pc2 && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
cat >slurm.conf <<C
ClusterName=lab
SlurmctldHost=head(192.0.2.1)
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
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=4
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
export INPUT=caller
for list in ALL ALL,INPUT=given INPUT=given,ALL ALL,OTHER=given OTHER=given,ALL; do
    sbatch -Q -W -o output --export="$list" --wrap "printf 'INPUT=%s OTHER=%s' \$INPUT \$OTHER"
    echo "--export=$list: sbatch $(cat output), srun $(srun -Q --export="$list" sh -c "printf 'INPUT=%s OTHER=%s' \$INPUT \$OTHER")"
done | tee out
diff - out <<'C'
--export=ALL: sbatch INPUT=caller OTHER=, srun INPUT=caller OTHER=
--export=ALL,INPUT=given: sbatch INPUT=given OTHER=, srun INPUT=caller OTHER=
--export=INPUT=given,ALL: sbatch INPUT=caller OTHER=, srun INPUT=caller OTHER=
--export=ALL,OTHER=given: sbatch INPUT=caller OTHER=given, srun INPUT=caller OTHER=given
--export=OTHER=given,ALL: sbatch INPUT=caller OTHER=given, srun INPUT=caller OTHER=given
C
echo "as observed: --export=ALL,NAME=value is another value for sbatch and for srun"
