#!/usr/bin/env bash
# What: limits such as MaxTRES=mem=1.50G in sacctmgr; Debian slurm-client, slurmdbd 22.05.8-4+deb12u3.
# Guess: 1.50G is 1536M, or it is refused, as by `sbatch --mem=1.5G` and `MaxWall=2h`. GrpTRESMins=cpu=10-00:00:00 is ten
#   days, as MaxWall=10-00:00:00 is, and MaxJobs=1k is 1024, as GrpTRES=cpu=1k is.
# Happens: what stands behind the first digits is dropped, with status 0: mem=1.50G, as sacctmgr itself shows a limit of
#   1536M, is 1M, cpu=10-00:00:00 is ten minutes, MaxJobs=1k and MaxSubmitJobs=1e3 are 1, Fairshare=2.5 is 2.
# Who meets it: an administrator who gives a user one and a half gigabytes, or a thousand jobs: with
#   AccountingStorageEnforce=limits no job of the user fits, or one runs at a time, though the command exited with 0.
# Instead: whole numbers in M and minutes, and a look at `sacctmgr show association`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    version=22.05.8-4+deb12u3
    apt-get download -q slurmdbd=$version slurm-wlm-mysql-plugin=$version slurm-client=$version munge=0.5.15-2+deb12u1 \
        slurm-wlm-basic-plugins=$version libmunge2 liblz4-1 libreadline8 libdbus-1-3 libaio1 liburing2 libnuma1 \
        libpcre2-8-0 libmariadb3 mariadb-server-core=1:10.11.19-0+deb12u1 mariadb-client-core=1:10.11.19-0+deb12u1 \
        >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf TZ=UTC PATH=$T/usr/bin:$PATH
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 munge && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
usr/sbin/munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
mariadb-install-db --no-defaults --basedir="$T/usr" --datadir="$T/db" --user="$(id -un)" \
    --auth-root-authentication-method=socket --skip-test-db >words 2>&1
usr/sbin/mariadbd --no-defaults --basedir="$T/usr" --user="$(id -un)" --datadir="$T/db" --socket="$T/db.socket" \
    --bind-address=127.0.0.1 --port=3306 --pid-file="$T/db.pid" >words 2>&1 &
sql() { mariadb --no-defaults -S "$T/db.socket" -e "$1" 2>/dev/null; }
for _ in $(seq 200); do sql 'select 1' >/dev/null && break; sleep 0.1; done
sql "create database slurm_acct_db; create user 'slurm'@'localhost' identified by 'x'; grant all on slurm_acct_db.* to 'slurm'@'localhost'"
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=head(192.0.2.1)
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
DbdHost=head
DbdAddr=192.0.2.1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=x
PidFile=$T/slurmdbd.pid
P
chmod 600 slurmdbd.conf
hostname head
usr/sbin/slurmdbd -D >dbd.log 2>&1 &
for _ in $(seq 200); do sacctmgr -i add cluster lab >words 2>&1 && break; sleep 0.1; done
sacctmgr -i add account lab >words
sacctmgr -i add user root account=lab >words
{
    for limit in MaxTRES=mem=1536M MaxTRES=mem=2G MaxTRES=mem=1.50G GrpTRES=cpu=1k MaxJobs=1k MaxSubmitJobs=1e3 Fairshare=2.5 \
        MaxWall=10-00:00:00 MaxWall=2h GrpTRESMins=cpu=14400 GrpTRESMins=cpu=10-00:00:00; do
        status=0; sacctmgr -i modify account lab set $limit >words 2>&1 || status=$?
        echo "$limit: status $status, $(sacctmgr -nP show association account=lab user= format="${limit%%=*}")"
    done
} | tee out
diff - out <<'P'
MaxTRES=mem=1536M: status 0, mem=1.50G
MaxTRES=mem=2G: status 0, mem=2G
MaxTRES=mem=1.50G: status 0, mem=1M
GrpTRES=cpu=1k: status 0, cpu=1024
MaxJobs=1k: status 0, 1
MaxSubmitJobs=1e3: status 0, 1
Fairshare=2.5: status 0, 2
MaxWall=10-00:00:00: status 0, 10-00:00:00
MaxWall=2h: status 1, 10-00:00:00
GrpTRESMins=cpu=14400: status 0, cpu=14400
GrpTRESMins=cpu=10-00:00:00: status 0, cpu=10
P
echo "as observed: 1.50G is 1M, 10-00:00:00 is ten minutes, and 1k is 1"
