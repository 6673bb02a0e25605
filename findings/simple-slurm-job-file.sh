#!/usr/bin/env bash
# What: Slurm.sbatch(..., job_file=...) of simple_slurm; PyPI simple-slurm 0.3.6, Debian Slurm 22.05.8-4+deb12u3.
# Guess: the job that `sbatch` without job_file gets, kept in a file: 'the script will be written to the designated
#   file'.
# Happens: each $ has a backslash, which is meant for the here-document of the other way. The job's shell hands the
#   program the letters $SLURM_ARRAY_TASK_ID instead of the number. The job is COMPLETED.
# Who meets it: who adds job_file to keep the script, with Slurm.SLURM_ARRAY_TASK_ID as in its README: all tasks of an
#   array compute what the program makes of that word, and write one file.
# Instead: convert=False wherever job_file is given.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install simple-slurm==0.3.6
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
cat >program.py <<'C'
from simple_slurm import Slurm
for name, options in ("no job_file", {}), ("job_file", dict(job_file="job.sh")), \
        ("job_file, convert=False", dict(job_file="job.sh", convert=False)):
    slurm = Slurm(array=range(1, 3), output="task%a", wait=True)
    slurm.sbatch("echo case", Slurm.SLURM_ARRAY_TASK_ID, verbose=False, **options)
    print(f"{name}:", *(f"[{open(file).read().strip()}]" for file in ("task1", "task2")))
C
timeout 200 v/bin/python program.py | tee out
diff - out <<'P'
no job_file: [case 1] [case 2]
job_file: [case $SLURM_ARRAY_TASK_ID] [case $SLURM_ARRAY_TASK_ID]
job_file, convert=False: [case 1] [case 2]
P
echo "as observed: with job_file, the letters of a variable's name are handed on"
