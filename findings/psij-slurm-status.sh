#!/usr/bin/env bash
# What: a PSI/J job that fails, under Slurm; PyPI psij-python 0.9.11, Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: Slurm sees the job fail as PSI/J does, so that `dependency=afterok:ID` in another job's attributes never starts
#   it, and squeue, sacct and mail say FAILED.
# Happens: PSI/J says FAILED and 3. For Slurm each such job is COMPLETED with 0:0, because the script that PSI/J submits
#   ends with a command of its own, which writes the status to a file. afterok of a failed job runs.
# Who meets it: chains of jobs by custom_attributes {"slurm.dependency": ...}, or an sbatch beside the program: the step
#   after a failed one reads what the run before has left. Also sites that count failures with sacct.
# Instead: wait in PSI/J and look at JobStatus before the next submit.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install psij-python==0.9.11
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
mkdir -m 755 state munge spool && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc1(192.0.2.1)
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd.pid
SlurmdSpoolDir=$T/spool
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
slurmd -D -f "$T/slurm.conf" -N pc1 >pc1.log 2>&1 &
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle" ] || break; sleep 0.1; done
cat >program.py <<'P'
import subprocess, warnings; warnings.simplefilter("ignore")
from datetime import timedelta
from pathlib import Path
from psij import Job, JobAttributes, JobExecutor, JobSpec
from psij.executors.batch.slurm import SlurmExecutorConfig
slurm = JobExecutor.get_instance("slurm", config=SlurmExecutorConfig(
    queue_polling_interval=1, initial_queue_polling_delay=1, work_directory=Path("work").absolute()))

def run(name, command, **attributes):
    job = Job(JobSpec(executable="/bin/sh", arguments=["-c", command],
                      attributes=JobAttributes(custom_attributes=attributes)))
    slurm.submit(job)
    status = job.wait(timeout=timedelta(seconds=60))
    record = subprocess.run(["scontrol", "-o", "show", "job", job.native_id], capture_output=True, text=True).stdout
    record = dict(word.split("=", 1) for word in record.split() if "=" in word)
    print(f"{name}: {status.state.name} {status.exit_code}, in Slurm {record['JobState']} {record['ExitCode']}")
    return job.native_id

run("succeeds", "true")
run("killed", "kill -9 $$")
failed = run("exit 3", "exit 3")
run("afterok of this", "true", **{"slurm.dependency": f"afterok:{failed}"})
P
printf '#!/bin/sh\nexit 3\n' >plain; chmod +x plain
{
    timeout 200 v/bin/python program.py
    plain=$(sbatch --parsable -o /dev/null plain)
    while scontrol -o show job "$plain" | grep -qE 'JobState=(PENDING|RUNNING|COMPLETING)'; do sleep 0.2; done
    echo "sbatch of exit 3: in Slurm" "$(scontrol -o show job "$plain" | grep -oE 'JobState=\w+' | cut -d= -f2)"
} | tee out
diff - out <<'P'
succeeds: COMPLETED 0, in Slurm COMPLETED 0:0
killed: FAILED 137, in Slurm COMPLETED 0:0
exit 3: FAILED 3, in Slurm COMPLETED 0:0
afterok of this: COMPLETED 0, in Slurm COMPLETED 0:0
sbatch of exit 3: in Slurm FAILED
P
echo "as observed: for Slurm every job of PSI/J succeeds"
