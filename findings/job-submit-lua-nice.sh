#!/usr/bin/env bash
# What: `job_desc.nice = 100` in job_submit.lua; Debian slurmctld, slurm-client 22.05.8-4+deb12u3 with its job_submit/lua.
# Guess: what `sbatch --nice=100` does: the job's priority is 100 lower.
# Happens: the field counts from slurm.NICE_OFFSET, 2147483648. 100 becomes a Nice of -2147483548, which puts the job before all
#   others under priority/multifactor; -100 becomes 2147483548, behind all others; 0 is the best of all. No error, no line in the log.
#   What a user gave as --nice=100 is read as 2147483748 there, and nothing given as 4294967294.
# Who meets it: administrators who let short tests or a PC's owner go first, or guests last, by a line in job_submit.lua: it does the
#   opposite, by far more than any weight. The manual's page on job_submit/lua does not describe the field.
# Instead: job_desc.nice = slurm.NICE_OFFSET + 100; look at %y of squeue afterwards.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 slurm-wlm-plugins=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 \
        munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 liblua5.3-0 >/dev/null 2>&1
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
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
JobSubmitPlugins=lua
NodeName=pc[1-2] NodeAddr=192.0.2.[2-3] CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
P
cat >job_submit.lua <<'P'
function slurm_job_submit(job_desc, partitions, uid)
    slurm.log_user("the script reads nice %.0f", job_desc.nice)
    local nice = string.match(job_desc.name, "^script(.*)$")
    if nice then job_desc.nice = tonumber(nice) end
    if job_desc.name == "offset100" then job_desc.nice = slurm.NICE_OFFSET + 100 end
    return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job, partitions, uid) return slurm.SUCCESS end
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
{
    for job in "plain" "option100 --nice=100" "script100" "script-100" "script0" "offset100"; do
        set -- $job
        usr/bin/sbatch -J "$@" --wrap=true 2>&1 >/dev/null | sed "s/sbatch: /$job: /"
    done
    echo "in the order of the queue, with %y:"
    usr/bin/squeue -h -S -p,i -o '%j %y'
} | tee out
kill %1; wait || true
diff - out <<'P'
plain: the script reads nice 4294967294
option100 --nice=100: the script reads nice 2147483748
script100: the script reads nice 4294967294
script-100: the script reads nice 4294967294
script0: the script reads nice 4294967294
offset100: the script reads nice 4294967294
in the order of the queue, with %y:
script0 -2147483648
script100 -2147483548
plain 0
option100 100
offset100 100
script-100 2147483548
P
if grep -i nice words; then exit 1; fi
echo "as observed: a nice of 100 in job_submit.lua puts the job first, -100 last"
