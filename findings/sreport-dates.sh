#!/usr/bin/env bash
# What: start= and end= of sreport; Debian slurm-client, slurmdbd 22.05.8-4+deb12u3.
# Guess: start=11/01/24 end=11/30/24 is November, with its last day; and a date that sreport cannot read is an error.
# Happens: end= is the first second of that day, so the last day is left out. One day, start=11/30/24
#   end=11/30/24, is its first hour, and so is `start=today`. A date that it cannot read (2024/11/01, 01.11.2024, yesterday,
#   24:00) is named, and then the report is that of yesterday, with status 0. 2024-11-31 is 1 December.
# Who meets it: the report of a month for users or sponsors, made by a script which takes the table from standard output.
# Instead: end= the first day of the next month; and compare the dates in the heading, which -n leaves out.
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
report() {
    local status=0
    # shellcheck disable=SC2086
    sreport -P user topusage $1 >table 2>words || status=$?
    grep -q 'Invalid time' words && words='named as invalid' || words='no word'
    echo "$1: $(grep -oE '[-0-9T:]+ - [-0-9T:]+' table | sed "s/$(date -d yesterday +%F)/yesterday/g"), $words, status $status"
}
{
    report 'start=11/01/24 end=12/01/24'; report 'start=11/01/24 end=11/30/24'; report 'start=11/30/24 end=11/30/24'
    report 'start=2024-11-01 end=2024-11-30'; report 'start=2024-11-31 end=2024-12-31'
    report 'start=2024/11/01 end=2024/12/01'; report 'start=01.11.2024 end=01.12.2024'; report start=yesterday
} | tee out
diff - out <<'P'
start=11/01/24 end=12/01/24: 2024-11-01T00:00:00 - 2024-11-30T23:59:59, no word, status 0
start=11/01/24 end=11/30/24: 2024-11-01T00:00:00 - 2024-11-29T23:59:59, no word, status 0
start=11/30/24 end=11/30/24: 2024-11-30T00:00:00 - 2024-11-30T00:59:59, no word, status 0
start=2024-11-01 end=2024-11-30: 2024-11-01T00:00:00 - 2024-11-29T23:59:59, no word, status 0
start=2024-11-31 end=2024-12-31: 2024-12-01T00:00:00 - 2024-12-30T23:59:59, no word, status 0
start=2024/11/01 end=2024/12/01: yesterdayT00:00:00 - yesterdayT23:59:59, named as invalid, status 0
start=01.11.2024 end=01.12.2024: yesterdayT00:00:00 - yesterdayT23:59:59, named as invalid, status 0
start=yesterday: yesterdayT00:00:00 - yesterdayT23:59:59, named as invalid, status 0
P
echo "as observed: sreport leaves the last day out, and takes yesterday for dates that it cannot read"
