#!/usr/bin/env bash
# What: `scontrol show hostnames` of a host list that was cut off or is wrong; Debian slurm-client 22.05.8-4+deb12u3.
# Guess: an error and a status other than 0, as ClusterShell's nodeset and python-hostlist do.
# Happens: a wrong range prints 'Invalid hostlist' and exits with 0. A list without its closing bracket is not even an error:
#   `pc[1,3` becomes the hosts `pc]` and `3`.
# Who meets it: scripts that make a machine file by `scontrol show hostnames "$(squeue -h -O NodeList -j ID)"`: squeue and
#   sinfo -O cut the list at 20 characters, inside the bracket, for any job of more than a few scattered nodes. The script
#   goes on, with `set -e` too, with an empty machine file (so mpirun runs all ranks on the head) or with made-up hosts.
# Instead: `squeue -h -o %N` or `-O NodeList:4000`, SLURM_JOB_NODELIST, and a look at the number of lines against
#   SLURM_JOB_NUM_NODES; or `nodeset -e`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge libmunge2 liblz4-1 libreadline8 libtinfo6 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip -q install --no-deps --target "$T/python" python-hostlist==2.3.0 ClusterShell==1.9.3
libraries=$T/usr/lib/x86_64-linux-gnu
printf '%s\n' ClusterName=lab 'SlurmctldHost=head(127.0.0.1)' "PluginDir=$libraries/slurm-wlm" 'NodeName=pc[1-9]' 'PartitionName=all Nodes=ALL' >slurm.conf
export SLURM_CONF=$T/slurm.conf
slurm() { LD_LIBRARY_PATH="$libraries:$libraries/slurm-wlm" usr/bin/scontrol show hostnames "$1"; }
LD_LIBRARY_PATH="$libraries:$libraries/slurm-wlm" usr/bin/scontrol --version
expand() { # how, list
    local result=0 hosts
    hosts=$("$1" "$2" 2>"$T/words") || result=$?
    echo "$1 '$2': status $result, hosts:${hosts:+ $(echo $hosts)}"
}
nodeset() { PYTHONPATH=$T/python python3 -c 'import sys; from ClusterShell.NodeSet import NodeSet; print(*NodeSet(sys.argv[1]))' "$1"; }
hostlist() { PYTHONPATH=$T/python python3 -c 'import sys, hostlist; print(*hostlist.expand_hostlist(sys.argv[1]))' "$1"; }
for list in 'pc[1-3]' 'pc[3-1]' 'pc[1,3,5,7,9,11,13,1'; do for how in slurm nodeset hostlist; do expand "$how" "$list"; done; done | tee out
diff - out <<'P'
slurm 'pc[1-3]': status 0, hosts: pc1 pc2 pc3
nodeset 'pc[1-3]': status 0, hosts: pc1 pc2 pc3
hostlist 'pc[1-3]': status 0, hosts: pc1 pc2 pc3
slurm 'pc[3-1]': status 0, hosts:
nodeset 'pc[3-1]': status 1, hosts:
hostlist 'pc[3-1]': status 1, hosts:
slurm 'pc[1,3,5,7,9,11,13,1': status 0, hosts: pc] 3 5 7 9 11 13 1
nodeset 'pc[1,3,5,7,9,11,13,1': status 1, hosts:
hostlist 'pc[1,3,5,7,9,11,13,1': status 1, hosts:
P
echo "as observed: a wrong list exits with 0, a list cut off becomes made-up hosts"
