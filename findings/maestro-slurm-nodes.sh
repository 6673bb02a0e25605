#!/usr/bin/env bash
# What: a step of Maestro with `nodes` and `procs`, on Slurm; PyPI maestrowf 1.2.1, Debian Slurm 22.05.8-4+deb12u3.
# Guess: the job asks for as many processors as $(LAUNCHER) starts processes, as it does where the step has `procs` only.
# Happens: with `nodes` the script has --nodes and no --ntasks: one processor of each node. `srun -n 4 -N 1` in it is refused:
#   'More processors requested than permitted', and the step has failed. `cores per task` is not asked for either. Where
#   Slurm gives whole nodes (select/linear, OverSubscribe=EXCLUSIVE) it works.
# Who meets it: studies with nodes and procs, which is how Maestro's documentation has them, on a small cluster whose nodes
#   are shared by jobs (select/cons_tres).
# Instead: `procs` without `nodes`; or `procs` in the `batch` part, too, or `exclusive: True`, with both.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    cd "$T"
    python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install maestrowf==1.2.1
    version=22.05.8-4+deb12u3
    apt-get download -q slurmctld=$version slurmd=$version slurm-client=$version slurm-wlm-basic-plugins=$version \
        libslurm38=$version munge=0.5.15-2+deb12u1 libmunge2 liblz4-1 libreadline8 libhwloc15 libnuma1 libdbus-1-3 \
        >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    for name in slurmctld slurmd slurmstepd; do ln -s $name-wlm usr/sbin/$name; done    # its name tells it what it is
    cd "$OLDPWD"
    T=$T unshare --mount --net --uts --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # slurmd starts /usr/sbin/slurmstepd
mount -t sysfs sysfs /sys                                   # a /sys without control groups
libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/slurm-wlm SLURM_CONF=$T/slurm.conf HOME=$T
ip link set lo up
ip link add e0 type veth peer name e1 && ip link set e0 up && ip link set e1 up && ip address add 192.0.2.1/24 dev e0
mkdir -m 755 state munge spool spool/pc1 spool/pc2 && chmod 755 "$T"
head -c 128 /dev/urandom >key && chmod 400 key
munged --key-file="$T/key" --socket="$T/munge/socket" --pid-file="$T/munge/pid" --log-file="$T/munge/log" \
    --seed-file="$T/munge/seed"
cat >slurm.conf <<C
ClusterName=lab
SlurmctldHost=head(192.0.2.1)
AuthInfo=socket=$T/munge/socket
SlurmUser=root
StateSaveLocation=$T/state
SlurmctldPidFile=$T/slurmctld.pid
SlurmdPidFile=$T/slurmd-%n.pid
SlurmdSpoolDir=$T/spool/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
NodeName=pc1 NodeAddr=192.0.2.1 Port=7001 CPUs=8
NodeName=pc2 NodeAddr=192.0.2.1 Port=7002 CPUs=8
PartitionName=all Nodes=ALL Default=YES
C
echo 'CgroupPlugin=cgroup/v1' >cgroup.conf
hostname head
slurmctld -D -f "$T/slurm.conf" >controller.log 2>&1 &
for _ in $(seq 100); do scontrol ping 2>/dev/null | grep -q 'is UP' && break; sleep 0.1; done
for name in pc1 pc2; do slurmd -D -f "$T/slurm.conf" -N $name >$name.log 2>&1 & done
for _ in $(seq 200); do [ "$(sinfo -h -N -o %t | xargs)" != "idle idle" ] || break; sleep 0.1; done
for kind in procs nodes batch exclusive; do
    batch=; wanted="nodes: 1, procs: 4"
    case $kind in
    procs) wanted="procs: 4" ;;
    batch) batch=", procs: 1" ;;
    exclusive) wanted+=", exclusive: True" ;;
    esac
    cat >study.yaml <<P
description: {name: study, description: a test}
batch: {type: slurm, host: lab, bank: "", queue: all$batch}
study:
    - name: run
      description: one step
      run: {cmd: "\$(LAUNCHER) echo ran", $wanted}
P
    status=0; USER=root timeout 60 v/bin/maestro run -y -fg -s 1 -o $kind study.yaml >words 2>&1 || status=$?
    echo "$wanted${batch:+, in batch:${batch#,}}: status $status,$(grep -hE 'nodes=|ntasks|exclusive|srun' $kind/run/run.slurm.sh | sed 's/#SBATCH/ /' | xargs printf ' %s')"
    echo "  $(grep -c ran $kind/run/run.out || true) processes ran. $(grep -o 'More processors.*' $kind/run/run.err || true)"
done | sed 's/ *$//' | tee out
diff - out <<'P'
procs: 4: status 0, --ntasks=4 srun -n 4 echo ran
  4 processes ran.
nodes: 1, procs: 4: status 2, --nodes=1 srun -n 4 -N 1 echo ran
  0 processes ran. More processors requested than permitted
nodes: 1, procs: 4, in batch: procs: 1: status 0, --nodes=1 --ntasks=4 srun -n 4 -N 1 echo ran
  4 processes ran.
nodes: 1, procs: 4, exclusive: True: status 0, --nodes=1 --exclusive srun -n 4 -N 1 echo ran
  4 processes ran.
P
echo "as observed: with nodes, Maestro asks Slurm for one processor of each"
