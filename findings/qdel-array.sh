#!/usr/bin/env bash
# What: qdel of one element of a job array; Debian slurm-wlm-torque 22.05.8-4+deb12u3.
# Guess: `qdel 1_2`, the number as squeue shows it, or `qdel '1[2]'`, as PBS writes it, ends element 2 or is refused.
# Happens: all elements of the array are cancelled, and the exit status is 0. qdel hands the word to Perl as a number, for
#   which `1_2` is 1. Perl's warning "isn't numeric" is all that is said.
# Who meets it: users of job arrays who know qdel from PBS: one element is to go, and hours of the others go with it.
# Instead: scancel 1_2
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 slurm-wlm-torque=22.05.8-4+deb12u3 libslurm-perl=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm PERL5LIB=$libraries/perl5/5.36 SLURM_CONF=$T/slurm.conf
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
PartitionName=all Nodes=ALL Default=YES
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
waiting() { echo "waiting: $(usr/bin/squeue -h -r -o %i | sort | tr '\n' ' ')"; }
{
    for element in '1_2' '2[2]'; do
        usr/bin/sbatch -H --array=1-3 --wrap=true
        waiting
        status=0; perl usr/bin/qdel "$element" 2>&1 | sed 's/ at .*//' || status=$?
        echo "qdel $element: status $status"
        waiting
    done
    usr/bin/sbatch -H --array=1-3 --wrap=true
    usr/bin/scancel 3_2
    waiting
} | tee out
kill %1; wait || true
diff - out <<'P'
Submitted batch job 1
waiting: 1_1 1_2 1_3 
Argument "1_2" isn't numeric in subroutine entry
qdel 1_2: status 0
waiting: 
Submitted batch job 2
waiting: 2_1 2_2 2_3 
Argument "2[2]" isn't numeric in subroutine entry
qdel 2[2]: status 0
waiting: 
Submitted batch job 3
waiting: 3_1 3_3 
P
echo "as observed: one element is named, and all are cancelled"
