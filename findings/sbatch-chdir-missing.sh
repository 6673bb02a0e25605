#!/usr/bin/env bash
# What: `sbatch --chdir=FOLDER` where the folder is not there on the node; Debian slurmd, slurmctld, slurm-client 22.05.8-4+deb12u3.
# Guess: the job fails, as one does whose --output can not be opened: its script must not run elsewhere.
# Happens: it runs in /tmp of the node and is COMPLETED with 0:0. One line in the job's own output says so. srun --chdir does likewise.
# Who meets it: a PC whose NFS mount of the project is missing that day, a name with a typing error: the program reads no input or
#   older files in /tmp, writes its results there, and the node's clean-up of /tmp deletes them. `afterok` jobs go on.
# Instead: `cd FOLDER || exit 1` as the first line of the script; `set -e` does not help without it.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurmd=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 \
        munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool project && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" --seed-file="$T/munge/seed"
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
NodeName=pc1 NodeAddr=192.0.2.1 CPUs=2 RealMemory=100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
P
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmctld-wlm -D -f "$T/slurm.conf" >controller.log 2>&1 &
for i in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
slurmd-wlm -D -f "$T/slurm.conf" -N pc1 >node.log 2>&1 &
for i in $(seq 100); do sinfo -h -o %t | grep -q idle && break; sleep 0.1; done
{
    for folder in "$T/project" "$T/projcet"; do
        job=$(sbatch --parsable --chdir="$folder" -o "$T/words" --wrap pwd)
        for i in $(seq 100); do scontrol -o show job "$job" | grep -qE 'JobState=(COMPLETED|FAILED)' && break; sleep 0.2; done
        sleep 1
        echo "--chdir=${folder##*/}: $(scontrol -o show job "$job" | grep -oE '(JobState|ExitCode)=[^ ]+' | xargs), the script runs in $(tail -n 1 words | sed "s#$T/##")"
    done
} | tee out
kill %1 %2; wait || true
diff - out <<'P'
--chdir=project: JobState=COMPLETED ExitCode=0:0, the script runs in project
--chdir=projcet: JobState=COMPLETED ExitCode=0:0, the script runs in /tmp
P
grep -o "couldn't chdir to.*" words | head -n 1 | sed "s#$T/##"
echo "as observed: a job whose folder is not there runs in /tmp, and succeeds"
