#!/usr/bin/env bash
# What: GraceTime of a QOS, `sacctmgr modify qos NAME set GraceTime=...`; Debian slurm-client, slurmdbd 22.05.8-4+deb12u3.
# Guess: 01:00:00 is an hour. The manual: 'in the format of hh:mm:ss' (though 'in seconds' further up); `sacctmgr show qos` prints it as hh:mm:ss,
#   MaxWall of the same QOS takes 01:00:00, and a line below it.
# Happens: what stands before the first colon is taken for seconds: 01:00:00 is one second, 10:00 is ten, 1-0 is one, and status 0. 00:02:00, which would be none,
#   is refused as an invalid value, status 1. 120 is two minutes.
# Who meets it: who lets long jobs be preempted, with an hour to write their checkpoint: they get a second, and are killed while they write it.
# Instead: seconds, GraceTime=3600, and a look at `sacctmgr show qos format=name,gracetime`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmdbd=22.05.8-4+deb12u3 slurm-wlm-mysql-plugin=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libdbus-1-3 \
        mariadb-server-core=1:10.11.19-0+deb12u1 mariadb-client-core=1:10.11.19-0+deb12u1 libaio1 liburing2 libnuma1 libpcre2-8-0 libmariadb3 >/dev/null 2>&1
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
NodeName=pc1 NodeAddr=192.0.2.1
PartitionName=all Nodes=ALL
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
usr/bin/sacctmgr -i add qos long >/dev/null
{
    for value in MaxWall=01:00:00 GraceTime=3600 GraceTime=01:00:00 GraceTime=10:00 GraceTime=00:02:00 GraceTime=120; do
        result=0; usr/bin/sacctmgr -i modify qos long set $value >said 2>&1 || result=$?
        echo "$value: status $result, $(usr/bin/sacctmgr -n -P show qos long format="${value%=*}")"
    done
} | tee out
diff - out <<'P'
MaxWall=01:00:00: status 0, 01:00:00
GraceTime=3600: status 0, 01:00:00
GraceTime=01:00:00: status 0, 00:00:01
GraceTime=10:00: status 0, 00:00:10
GraceTime=00:02:00: status 1, 00:00:10
GraceTime=120: status 0, 00:02:00
P
echo "as observed: a grace time of 01:00:00 is one second"
