#!/usr/bin/env bash
# What: the number of nodes in slurmrestd's job/submit; Debian slurmrestd 22.05.8-4+deb12u3, v0.0.38.
# Guess: `"nodes": [2, 2]` asks for two nodes, as its own /openapi/v3 says: an array of one or two integers, "a minimum of
#   minnodes nodes and a maximum node count".
# Happens: an array of two is taken without a word, and the job asks for one node. An array of one is refused ("Invalid node
#   count list size"). Text and a number are not in the description, and work.
# Who meets it: users of clients that were made from the description: the job runs, on one node.
# Instead: "nodes": "2" (text), or "tasks" as well; look at NumNodes of the job.
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
cat >ask <<'P'
{ printf "$1 $2 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${#3}\r\n\r\n%s" "$3"; } |
    usr/sbin/slurmrestd -s v0.0.38 -a rest_auth/local 2>/dev/null
P
ask() { as_user sh ask "$@"; }
{
    ask GET /openapi/v3 '' | sed -n '/^{/,$p' | python3 -c 'import json,sys
about = json.load(sys.stdin)["components"]["schemas"]["v0.0.38_job_properties"]["properties"]["nodes"]
print("described:", about["type"], "of", about["items"]["type"], about["minItems"], "to", about["maxItems"])'
    for nodes in '[2, 2]' '[2]' '2' '"2"'; do
        body='{"script": "#!/bin/sh\n", "job": {"nodes": '$nodes', "hold": true, "current_working_directory": "/", "environment": {"A": "b"}}}'
        said=$(ask POST /slurm/v0.0.38/job/submit "$body")
        job=$(sed -n 's/.*"job_id": \([0-9]*\).*/\1/p' <<<"$said")
        if [ -n "$job" ]; then
            echo "nodes: $nodes: $(usr/bin/scontrol show job -o "$job" | grep -o ' NumNodes=[0-9]*')"
        else
            echo "nodes: $nodes: $(grep -m 1 -o '"error": .*' <<<"$said")"
        fi
    done
} | tee out
kill %1; wait || true
diff - out <<'P'
described: array of integer 1 to 2
nodes: [2, 2]:  NumNodes=1
nodes: [2]: "error": "Invalid node count list size",
nodes: 2:  NumNodes=2
nodes: "2":  NumNodes=2
P
echo "as observed: what is described asks for one node"
