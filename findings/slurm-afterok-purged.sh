#!/usr/bin/env bash
# What: sbatch --dependency=afterok of a job that did not succeed, some minutes later; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: the new job never runs (its manual: 'after the specified jobs have successfully executed'), or sbatch refuses a job id that
#   the controller does not know.
# Happens: this is so for MinJobAge (300 s unless set) after the end of the first job. Later its record is gone, sbatch takes
#   the dependency with status 0 and drops it: Dependency=(null), and the job runs. So does one that depends on a job id that
#   never was. afternotok and aftercorr are dropped too. The log of slurmctld says nothing.
# Who meets it: the person who submits the next stage of a chain by hand after lunch, and scripts that keep job ids in a file: the
#   post-processing of a failed simulation runs, on old or half data. A digit too many in the id starts a job at once.
# Instead: submit the whole chain at once, while the first job waits or runs; later, ask `sacct -X -n -o State -j ID` first.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
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
SelectType=select/cons_tres
MinJobAge=5
NodeName=pc[1-2] NodeAddr=192.0.2.[2-3] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
first=$(usr/bin/sbatch --parsable --wrap=true)      # waits, because no node is up, and is cancelled
usr/bin/scancel "$first"
depend() { # how, on what, what that is
    local job result=0
    job=$(usr/bin/sbatch --parsable --dependency="$1:$2" --wrap=true) || result=$?
    sleep 1; usr/bin/scontrol -o show job "$job" | grep -o ' Dependency=[^ ]*' | sed "s/:$first/:ID/;s/^/$1 of $3: status $result,/"
}
{
    depend afterok "$first" "a cancelled job"
    for i in $(seq 120); do usr/bin/scontrol show job "$first" >/dev/null 2>&1 || break; sleep 1; done
    depend afterok "$first" "the same job, purged"
    depend afterok 4242 "a job that never was"
} | tee out
kill %1; wait || true
diff - out <<'P'
afterok of a cancelled job: status 0, Dependency=afterok:ID(failed)
afterok of the same job, purged: status 0, Dependency=(null)
afterok of a job that never was: status 0, Dependency=(null)
P
if grep -i depend words; then exit 1; fi
echo "as observed: a dependency on a job whose record is gone is dropped, and the job runs"
