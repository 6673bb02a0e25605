#!/usr/bin/env bash
# What: a list for sbatch --mail-type; Debian slurm-client, slurmctld 22.05.8-4+deb12u3.
# Guess: a list with a word that it does not know is refused, as `--mail-type=FAILED` alone is: Invalid --mail-type specification.
# Happens: in a list such a word is dropped, without a warning and with status 0: END,FAILED is END, `"END, FAIL"` with a blank is
#   END, and END,TIME_LIMIT_75 (there are 50, 80 and 90) is END.
# Who meets it: who wants to hear of failures: END,FAILED sends mail only where the job ends well, and all seems to work.
# Instead: END,FAIL without a blank, or ALL; `scontrol show job ID | grep MailType` tells what was taken.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q slurmctld=22.05.8-4+deb12u3 slurm-client=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 \
        libslurm38=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 >/dev/null 2>&1
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
NodeName=pc1 NodeAddr=192.0.2.2
PartitionName=all Nodes=ALL Default=YES
P
hostname pc1 2>/dev/null || true
usr/sbin/slurmctld-wlm -D -f "$T/slurm.conf" >words 2>&1 &
for i in $(seq 100); do usr/bin/scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for types in END,FAIL FAILED END,FAILED FAILED,END "END, FAIL" END,TIME_LIMIT_75; do
    status=0 taken=
    job=$(usr/bin/sbatch --parsable -H --mail-type="$types" --wrap=true 2>errors) || status=$?
    [ $status != 0 ] || taken=$(usr/bin/scontrol -o show job "$job" | grep -o 'MailType=[^ ]*')
    echo "--mail-type='$types': status $status, ${taken:-refused}, $(wc -l <errors) lines of errors"
done | tee out
kill %1; wait || true
diff - out <<'P'
--mail-type='END,FAIL': status 0, MailType=END,FAIL, 0 lines of errors
--mail-type='FAILED': status 255, refused, 1 lines of errors
--mail-type='END,FAILED': status 0, MailType=END, 0 lines of errors
--mail-type='FAILED,END': status 0, MailType=END, 0 lines of errors
--mail-type='END, FAIL': status 0, MailType=END, 0 lines of errors
--mail-type='END,TIME_LIMIT_75': status 0, MailType=END, 0 lines of errors
P
echo "as observed: an unknown word in a list of mail types is dropped"
