#!/usr/bin/env bash
# What: `sacctmgr load file=... clean` while slurmctld runs, and changes after it; Debian slurmctld, slurmdbd 22.05.8-4+deb12u3.
# Guess: the associations are deleted and made anew, and slurmctld is told, as it is of any change. The manual: 'delete what was already there and start from scratch'.
# Happens: the cluster's record is made anew as well, without the controller's address. From then on slurmdbd tells slurmctld nothing: a limit that is set is in
#   `sacctmgr show`, with status 0, and is not kept; a user who is added is unknown to sbatch. `scontrol reconfigure` does not help; it lasts until slurmctld starts again.
# Who meets it: who restores a backup of the accounts, or loads a file with 'clean' because a plain load leaves removed users and limits in place.
# Instead: restart slurmctld after it (jobs go on). ControlHost in `sacctmgr show cluster` is empty until then.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurmdbd=22.05.8-4+deb12u3 slurm-wlm-mysql-plugin=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libdbus-1-3 \
        mariadb-server-core=1:10.11.19-0+deb12u1 mariadb-client-core=1:10.11.19-0+deb12u1 libaio1 liburing2 libnuma1 libpcre2-8-0 libmariadb3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    ln -s slurmctld-wlm usr/sbin/slurmctld     # by its name it knows what it is
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
usr/bin/mariadb-install-db --no-defaults --basedir="$T/usr" --datadir="$T/db" --user="$(id -un)" --auth-root-authentication-method=socket --skip-test-db >words 2>&1
usr/sbin/mariadbd --no-defaults --basedir="$T/usr" --user="$(id -un)" --datadir="$T/db" --socket="$T/db.socket" --bind-address=127.0.0.1 --port=3306 --pid-file="$T/db.pid" >words 2>&1 &
sql() { usr/bin/mariadb --no-defaults -S "$T/db.socket" -e "$1" 2>/dev/null; }
for i in $(seq 200); do sql 'select 1' >/dev/null && break; sleep 0.1; done
sql "create database slurm_acct_db; create user 'slurm'@'localhost' identified by 'x'; grant all on slurm_acct_db.* to 'slurm'@'localhost'"
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc1(192.0.2.1)
PluginDir=$libraries/slurm-wlm
AuthInfo=socket=$T/munge/socket
SlurmUser=root
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=192.0.2.1
AccountingStoragePass=$T/munge/socket
AccountingStorageEnforce=limits
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
ProctrackType=proctrack/linuxproc
NodeName=pc1 NodeAddr=192.0.2.1
PartitionName=all Nodes=ALL Default=YES
P
cat >slurmdbd.conf <<P
PluginDir=$libraries/slurm-wlm
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
hostname pc1
usr/sbin/slurmdbd -D >dbd.log 2>&1 &
for i in $(seq 200); do usr/bin/sacctmgr -n show cluster >/dev/null 2>&1 && break; sleep 0.2; done
manage() { usr/bin/sacctmgr -i "$@" >/dev/null 2>&1; }
manage add cluster lab; manage add account phys; manage add user nobody account=phys
start() {
    usr/sbin/slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
    for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
}
state() { # what was done
    local kept job
    sleep 2
    job=$(setpriv --reuid nobody --regid nogroup --clear-groups usr/bin/sbatch --parsable -H -D / -o /dev/null --wrap true 2>/dev/null) && kept="is taken" || kept="is refused"
    [ -z "$job" ] || { usr/bin/scancel "$job"; sleep 1; }
    echo "$1: MaxSubmitJobs <$(usr/bin/sacctmgr -n -P show assoc user=nobody format=maxsubmit)>, a job $kept, ControlHost <$(usr/bin/sacctmgr -n -P show cluster format=controlhost)>"
}
start
{
    state "at first"
    manage modify user nobody set MaxSubmitJobs=0; state "limit set"
    manage modify user nobody set MaxSubmitJobs=-1; state "limit taken off"
    manage dump lab file="$T/accounts"
    manage load file="$T/accounts" clean; state "load clean, status $?"
    manage modify user nobody set MaxSubmitJobs=0; state "limit set, status $?"
    usr/bin/scontrol reconfigure; state "scontrol reconfigure"
    usr/bin/scontrol shutdown slurmctld; for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' || break; sleep 0.1; done
    sleep 1; start; state "slurmctld started again"
} | tee out
diff - out <<'P'
at first: MaxSubmitJobs <>, a job is taken, ControlHost <192.0.2.1>
limit set: MaxSubmitJobs <0>, a job is refused, ControlHost <192.0.2.1>
limit taken off: MaxSubmitJobs <>, a job is taken, ControlHost <192.0.2.1>
load clean, status 0: MaxSubmitJobs <>, a job is taken, ControlHost <>
limit set, status 0: MaxSubmitJobs <0>, a job is taken, ControlHost <>
scontrol reconfigure: MaxSubmitJobs <0>, a job is taken, ControlHost <>
slurmctld started again: MaxSubmitJobs <0>, a job is refused, ControlHost <192.0.2.1>
P
echo "as observed: after load clean no change of limits is told to slurmctld"
