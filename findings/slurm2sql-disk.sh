#!/usr/bin/env bash
# What: bytes read and written in the database of slurm2sql; PyPI slurm2sql 0.9.9, Debian Slurm 22.05.8-4+deb12u3.
# Guess: MaxDiskWrite of a step has the bytes that sacct reports, as MaxRSS has. sacct gives both in a form like 2.94M.
# Happens: AveDiskRead, AveDiskWrite, MaxDiskRead and MaxDiskWrite lose all behind the point before the unit is applied:
#   2.94M is 2 MiB and 0.94M is nothing. MaxRSS, and TotDiskWrite, which comes from another column, are right.
# Who meets it: who looks for jobs that load the file server, or plots what tasks write: small steps write nothing,
#   others up to half less than they did, and a step of one task has a maximum below its total.
# Instead: TotDiskRead and TotDiskWrite, divided by NTasks.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install slurm2sql==0.9.9
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
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
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
cat >job <<'P'
import sys, time
blocks = int(sys.argv[1])               # of 100 KiB
with open("written", "wb") as file:
    for _ in range(blocks):
        file.write(bytes(102400))
time.sleep(4)                           # until the next sample
P
for blocks in 9 29; do srun python3 job $blocks; done
for _ in $(seq 100); do [ "$(sacct -n -X -o state | xargs)" != "COMPLETED COMPLETED" ] || break; sleep 0.2; done
v/bin/slurm2sql jobs.db -- >words 2>&1 || { cat words; exit 1; }
cat >program.py <<'P'
import sqlite3, subprocess
table = sqlite3.connect("jobs.db")
said = subprocess.run(["sacct", "-n", "-P", "-o", "jobid,maxdiskwrite,maxrss"], capture_output=True, text=True).stdout
for line in said.splitlines():
    step, write, memory = line.split("|")
    if not step.endswith(".0"):
        continue
    MiB = float(write.removesuffix("M"))
    found, total, resident = table.execute(
        "select MaxDiskWrite, TotDiskWrite, MaxRSS from slurm where JobID = ?", (step,)).fetchone()
    right = lambda value: "right" if abs(value / 2**20 - MiB) < 0.02 else f"wrong: {value}"
    print(f"step {step}: sacct about {MiB:.1f}M, MaxDiskWrite {found}, TotDiskWrite {right(total)}, MaxRSS",
          "right" if resident == 1024 * int(memory.removesuffix("K")) else f"{resident}, not {memory}")
P
v/bin/python program.py | tee out
diff - out <<'P'
step 1.0: sacct about 0.9M, MaxDiskWrite 0, TotDiskWrite right, MaxRSS right
step 2.0: sacct about 2.8M, MaxDiskWrite 2097152, TotDiskWrite right, MaxRSS right
P
echo "as observed: slurm2sql drops what is behind the point, and 0.9M is 0"
