#!/usr/bin/env bash
# What: a function of submitit with timeout_min=2, on Slurm; PyPI submitit 1.5.4, Debian Slurm 22.05.8-4+deb12u3.
# Guess: it has two minutes. The documentation has 90 s for signal_delay_s: the function is told when 90 s are left, at 30 s.
# Happens: it fails within its first half minute: 'Job not requeued because: timed-out and not checkpointable'. Slurm sends the
#   signal at the first look, each 30 s, where less than two minutes are left, and submitit takes it for the end.
#   How long a function lives is chance: 5 s or 30 s.
# Who meets it: short tasks, and tests with a short limit so that they start soon. They succeed if they are quick and fail at
#   times, and more memory or another node does not help. A limit of ten minutes is one of eight.
# Instead: timeout_min of 3 more than needed, or slurm_signal_delay_s=10.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install submitit==1.5.4
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
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=8
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=8
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
cat >program.py <<'P'
import submitit, time
def function(seconds):
    time.sleep(seconds)
    return f"{seconds} s of work done"
jobs = {}
for minutes, options in (2, {}), (4, {}), (2, {"slurm_signal_delay_s": 10}):
    executor = submitit.AutoExecutor(folder=f"logs{len(jobs)}", cluster="slurm")
    executor.update_parameters(timeout_min=minutes, **options)
    jobs[f"timeout_min={minutes}", *options.items()] = executor.submit(function, 40)
for name, job in jobs.items():
    while not job.paths.result_pickle.exists(): time.sleep(0.2)
    error = job.exception()
    print(*name, "-", str(error).strip().split("submitit.core.utils.")[-1].split("\n")[0] if error else job.result(), flush=True)
P
timeout 100 v/bin/python program.py 2>errors | tee out
diff - out <<'P'
timeout_min=2 - UncompletedJobError: Job not requeued because: timed-out and not checkpointable.
timeout_min=4 - 40 s of work done
timeout_min=2 ('slurm_signal_delay_s', 10) - 40 s of work done
P
echo "as observed: with timeout_min=2 a function of 40 s is timed out"
