#!/usr/bin/env bash
# What: slurmd with a configuration that uses no control groups (proctrack/linuxproc, task/none, no cgroup.conf), on a host or in a
#   container without /sys/fs/cgroup mounted; Debian slurmd 22.05.8-4+deb12u3.
# Guess: it starts, because nothing of what is configured needs control groups.
# Happens: 'No filesystem mounted on /sys/fs/cgroup', 'slurmd initialization failed', status 1. With a cgroup.conf that says
#   CgroupPlugin=cgroup/v1 it starts in the same place, where there is no version 1 either.
# Who meets it: test clusters in containers and chroots, and hosts on which the mount comes late.
# Instead: name a plugin in cgroup.conf although none is used. `CgroupPlugin=disabled` is a word of later releases, not of this one.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmd=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge libmunge2 libhwloc15 liblz4-1 libnuma1 libdbus-1-3 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm
mount -t sysfs sysfs /sys                     # a /sys without control groups
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
cat >slurm.conf <<P
ClusterName=lab
SlurmctldHost=pc1(192.0.2.1)
PluginDir=$libraries/slurm-wlm
SlurmUser=root
SlurmdSpoolDir=$T/spool
SlurmdPidFile=$T/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName=pc1 NodeAddr=192.0.2.1
PartitionName=all Nodes=ALL
P
usr/sbin/slurmd-wlm -V
try() { # how it is configured: one that starts is ended after 4 s, because there is no slurmctld
    result=0; { timeout -s KILL 4 usr/sbin/slurmd-wlm -D -f "$T/slurm.conf" -N pc1 >words 2>&1 || result=$?; } 2>/dev/null
    if grep -q 'slurmd.* started on' words; then echo "$1: started"; else echo "$1: status $result"; fi
    grep -o 'No filesystem mounted on.*\|slurmd initialization failed' words || true
}
{ try 'no cgroup.conf'; echo 'CgroupPlugin=cgroup/v1' >cgroup.conf; try 'cgroup/v1 named'; } | tee out
diff - out <<'P'
no cgroup.conf: status 1
No filesystem mounted on /sys/fs/cgroup
slurmd initialization failed
cgroup/v1 named: started
P
echo "as observed: slurmd wants control groups that nothing uses, unless a plugin is named"
