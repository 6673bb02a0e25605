#!/usr/bin/env bash
# What: `sacctmgr load` of a file that `sacctmgr dump` made and that was edited; Debian slurm-client, slurmdbd 22.05.8-4+deb12u3.
# Guess: the associations are then as in the file, or at least no others than those of changed lines are touched.
# Happens: a limit that is raised in a user's line is raised, too, in the association of the same user and account for one partition (Partition='gpu'), whose own line
#   says 1. The second load of the file puts that back, so that each `load` of one file gives another state. A limit that is taken out of a line stays:
#   'Nothing new added', status 0; so does a user whose line is taken out.
# Who meets it: who keeps the accounts of a cluster in a file under version control, edits it and loads it, and has a user with a smaller limit for the partition
#   of the one PC with a GPU: that limit is gone, until someone loads the file again.
# Instead: load, then dump again and `diff` the two; load until they are equal; `-1` for a limit that goes (MaxJobs=-1), `sacctmgr delete user` for a user.
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
manage() { usr/bin/sacctmgr -i "$@" >/dev/null; }
manage add cluster lab; manage add account phys
manage add user bob account=phys MaxJobs=3; manage add user bob account=phys partition=gpu MaxJobs=1; manage add user eve account=phys
usr/bin/sacctmgr dump lab file="$T/first" >/dev/null 2>&1
limits() { usr/bin/sacctmgr -n -P show assoc user=bob,eve format=user,partition,maxjobs | LC_ALL=C sort | xargs; }
try() { # what, file
    local result=0
    usr/bin/sacctmgr -i load file="$2" >said 2>&1 || result=$?
    echo "$1: status $result, $(grep -oE 'Nothing new added|Changed .*' said | xargs || true)"
    echo "  $(limits)"
}
sed "/^User - 'bob'/s/MaxJobs=3/MaxJobs=5/" first >more
sed "/^User - 'bob'/s/:MaxJobs=5//" more >none
grep -v "'eve'" more >less
grep -h "'bob'" more | sed "s/:DefaultAccount='[a-z]*'//"
{
    echo "  $(limits)"
    try "as dumped" "$T/first"
    try "3 to 5" "$T/more"
    try "once more" "$T/more"
    try "without the 5" "$T/none"
    try "without eve" "$T/less"
} | tee out
diff - out <<'P'
  bob|gpu|1 bob||3 eve||
as dumped: status 0, Nothing new added
  bob|gpu|1 bob||3 eve||
3 to 5: status 0, Changed MaxJobs for User bob 3 -> 5
  bob|gpu|5 bob||5 eve||
once more: status 0, Changed MaxJobs for User bob 5 -> 1
  bob|gpu|1 bob||5 eve||
without the 5: status 0, Nothing new added
  bob|gpu|1 bob||5 eve||
without eve: status 0, Nothing new added
  bob|gpu|1 bob||5 eve||
P
echo "as observed: a load changes a limit whose line was not touched, and keeps one that is gone"
