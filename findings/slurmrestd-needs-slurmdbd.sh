#!/usr/bin/env bash
# What: slurmrestd of a cluster without accounting; Debian slurmrestd 22.05.8-4+deb12u3 (24.11.5 of Debian 13 ends, too).
# Guess: without AccountingStorageType=accounting_storage/slurmdbd it serves /slurm/..., and refuses /slurmdb/... only.
# Happens: it ends before it answers anything: "fatal: slurm_openapi_p_init: slurm not configured with slurmdbd". Debian's
#   service starts it like that. 24.11.5 says "Failure loading plugin path bindings: Requested operation not supported".
# Who meets it: who installs slurmrestd on a small cluster that has no database.
# Instead: slurmrestd -s v0.0.38 (22.05), -s slurmctld (24.11): the part that asks slurmctld alone.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurmrestd=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhttp-parser2.9 libjson-c5 libyaml-0-2 libjwt0 libjansson4 >/dev/null 2>&1
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
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc1(192.0.2.1)
PluginDir=$libraries/slurm-wlm
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
ProctrackType=proctrack/linuxproc
NodeName=pc1 NodeAddr=192.0.2.2 State=UNKNOWN
NodeName=pc[2-4] NodeAddr=192.0.2.[3-5] State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxNodes=8
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
waiting() { echo "waiting: $(usr/bin/squeue -h -r -o %i | sort | tr '\n' ' ')"; }
chmod 755 . usr usr/sbin; chmod 711 munge
as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
{
    for parts in '' '-s v0.0.38'; do
        echo "slurmrestd $parts:"
        printf 'GET /slurm/v0.0.38/ping HTTP/1.1\r\nHost: localhost\r\n\r\n' >question
        chmod a+r question
        as_user sh -c "cat question | usr/sbin/slurmrestd $parts -a rest_auth/local 2>&1" | tr -d '\r' | grep -aE 'fatal|HTTP' || true
    done
} | tee out
kill %1; wait || true
diff - out <<'P'
slurmrestd :
slurmrestd: fatal: slurm_openapi_p_init: slurm not configured with slurmdbd
slurmrestd -s v0.0.38:
HTTP/1.1 200 OK
P
echo "as observed: without slurmdbd it ends, unless the other part is left out"
