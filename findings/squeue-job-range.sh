#!/usr/bin/env bash
# What: a range of jobs, `-j 1-3`, for squeue and sacct; Debian Slurm 22.05.8-4+deb12u3.
# Guess: the three jobs, or an error, as scancel and scontrol give for it: the manuals have a comma separated list,
#   and `-j x` is an error in both.
# Happens: what follows the number is dropped: the first job alone, with status 0. So it is with 1x, and `squeue -j 4_1-3` has the
#   task 1 of the array 4. Of `squeue -j '4_[1-3]'`, as squeue itself prints arrays, nothing is shown.
# Who meets it: scripts that submit a few jobs, look at the range of them, and go on when `squeue -h -j 1-3` is empty, or when
#   `sacct -n -X -o state -j 1-3` says COMPLETED: the others may wait, or have failed.
# Instead: `seq -s, 1 3` makes the list.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    version=22.05.8-4+deb12u3 database=1:10.11.19-0+deb12u1
    apt-get download -q slurmctld=$version slurmd=$version slurmdbd=$version slurm-wlm-mysql-plugin=$version \
        slurm-client=$version slurm-wlm-basic-plugins=$version libslurm38=$version munge=0.5.15-2+deb12u1 libmunge2 \
        liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 mariadb-server-core=$database \
        mariadb-client-core=$database libaio1 liburing2 libpcre2-8-0 libmariadb3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    for name in slurmctld slurmd slurmstepd; do ln -s $name-wlm usr/sbin/$name; done    # its name tells it what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf HOME=$T
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
mariadb-install-db --no-defaults --basedir="$T/usr" --datadir="$T/db" --user="$(id -un)" \
    --auth-root-authentication-method=socket --skip-test-db >words 2>&1
mariadbd --no-defaults --basedir="$T/usr" --user="$(id -un)" --datadir="$T/db" --socket="$T/db.socket" \
    --bind-address=127.0.0.1 --port=3306 --pid-file="$T/db.pid" >words 2>&1 &
sql() { mariadb --no-defaults -S "$T/db.socket" -e "$1" 2>/dev/null; }
for _ in $(seq 200); do sql 'select 1' >/dev/null && break; sleep 0.1; done
sql "create database slurm_acct_db; create user 'slurm'@'localhost' identified by 'x'"
sql "grant all on slurm_acct_db.* to 'slurm'@'localhost'"
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
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=192.0.2.1
AccountingStoragePass=$T/munge/socket
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=4
PartitionName=all Nodes=ALL Default=YES
P
cat >slurmdbd.conf <<P
AuthInfo=socket=$T/munge/socket
DbdHost=pc1
DbdAddr=192.0.2.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=x
PidFile=$T/slurmdbd.pid
P
chmod 600 slurmdbd.conf
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname pc1
slurmdbd -D >dbd.log 2>&1 &
for _ in $(seq 200); do sacctmgr -n show cluster >/dev/null 2>&1 && break; sleep 0.2; done
sacctmgr -i add cluster lab >/dev/null 2>&1 || true
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
slurmd -D -f "$T/slurm.conf" -N pc1 >pc1.log 2>&1 &
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle" ] || break; sleep 0.1; done
for command in true 'exit 1' 'sleep 300'; do sbatch -Q -o /dev/null --wrap "$command"; done
sbatch -Q -H -a 1-4 -o /dev/null --wrap true
sbatch -Q -H -J last -o /dev/null --wrap true
for _ in $(seq 300); do [ "$(sacct -n -X -o state -j 1,2,3 | xargs)" != "COMPLETED FAILED RUNNING" ] || break; sleep 0.1; done
ask() { # command with arguments
    status=0; said=$("$@" 2>&1) || status=$?
    echo "$*: status $status, $(sed -e 's/.*[Ii]nvalid.*/an error/' -e 's/.*fatal.*/an error/' <<<"$said" | xargs)"
}
{
    for jobs in 1,2,3 1-3 1x x; do ask sacct -n -X -o jobid,state -j $jobs; done
    for jobs in 3,5 3-5 3x x; do ask squeue -h -S i -o '%i %T' -j $jobs; done
    for tasks in '4_[1-3]' 4_1-3; do
        ask squeue -h -r -S i -o %i -j "$tasks"
    done
    ask scontrol show job 3-5
    ask scontrol hold 3-5
    ask scancel 3-5
} | tee out
diff - out <<'P'
sacct -n -X -o jobid,state -j 1,2,3: status 0, 1 COMPLETED 2 FAILED 3 RUNNING
sacct -n -X -o jobid,state -j 1-3: status 0, 1 COMPLETED
sacct -n -X -o jobid,state -j 1x: status 0, 1 COMPLETED
sacct -n -X -o jobid,state -j x: status 1, an error
squeue -h -S i -o %i %T -j 3,5: status 0, 3 RUNNING 5 PENDING
squeue -h -S i -o %i %T -j 3-5: status 0, 3 RUNNING
squeue -h -S i -o %i %T -j 3x: status 0, 3 RUNNING
squeue -h -S i -o %i %T -j x: status 1, an error
squeue -h -r -S i -o %i -j 4_[1-3]: status 0, 
squeue -h -r -S i -o %i -j 4_1-3: status 0, 4_1
scontrol show job 3-5: status 1, an error
scontrol hold 3-5: status 1, an error an error
scancel 3-5: status 1, an error
P
echo "as observed: squeue and sacct take a range of jobs for its first"
