#!/usr/bin/env bash
# What: a value with a comma in sbatch --export, as of OMP_SCHEDULE; Debian slurmctld, slurmd 22.05.8-4+deb12u3.
# Guess: an error for the 4 of `--export=ALL,OMP_SCHEDULE=dynamic,4`, which is no variable; or quotes that help.
# Happens: the value is cut at the comma, and the rest is dropped without a word: OMP_SCHEDULE is `dynamic`, chunks of 1. With
#   quotes inside the option the comma stays, and the quotes do, too: the value is `'dynamic,4'`, which libgomp
#   does not know and ignores with a line among the errors. A backslash stays, and does not help.
# Who meets it: OMP_SCHEDULE, OMP_PLACES, OMP_NUM_THREADS=4,2 and lists for a program of one's own.
# Instead: `export OMP_SCHEDULE=dynamic,4` before sbatch, or in the job script, or in a file for --export-file.
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
cat >program.c <<'C'
#include <omp.h>
#include <stdio.h>
int main(void) {
    omp_sched_t kind; int chunk;
    omp_get_schedule(&kind, &chunk);
    printf("libgomp: %s, chunk %d\n", kind == omp_sched_dynamic ? "dynamic" : "another", chunk);
}
C
gcc -fopenmp program.c -o program
try() { # label, options
    sbatch -Q -W -o output "${@:2}" --wrap "echo OMP_SCHEDULE=\$OMP_SCHEDULE; ./program"
    echo "$1: $(paste -sd' ' output)"
}
{
    for value in guided dynamic,4 "'dynamic,4'" '"dynamic,4"' 'dynamic\,4'; do
        try "--export=ALL,OMP_SCHEDULE=$value" --export="ALL,OMP_SCHEDULE=$value"
    done
    printf 'OMP_SCHEDULE=dynamic,4\0PATH=%s\0' "$PATH" >file; try --export-file --export-file=file
    export OMP_SCHEDULE=dynamic,4; try exported
} 2>&1 | tee out
diff - out <<'C'
--export=ALL,OMP_SCHEDULE=guided: OMP_SCHEDULE=guided libgomp: another, chunk 1
--export=ALL,OMP_SCHEDULE=dynamic,4: OMP_SCHEDULE=dynamic libgomp: dynamic, chunk 1
--export=ALL,OMP_SCHEDULE='dynamic,4': OMP_SCHEDULE='dynamic,4'  libgomp: Unknown value for environment variable OMP_SCHEDULE libgomp: dynamic, chunk 1
--export=ALL,OMP_SCHEDULE="dynamic,4": OMP_SCHEDULE="dynamic,4"  libgomp: Unknown value for environment variable OMP_SCHEDULE libgomp: dynamic, chunk 1
--export=ALL,OMP_SCHEDULE=dynamic\,4: OMP_SCHEDULE=dynamic\  libgomp: Unknown value for environment variable OMP_SCHEDULE libgomp: dynamic, chunk 1
--export-file: OMP_SCHEDULE=dynamic,4 libgomp: dynamic, chunk 4
exported: OMP_SCHEDULE=dynamic,4 libgomp: dynamic, chunk 4
C
echo "as observed: sbatch cuts values at commas"
