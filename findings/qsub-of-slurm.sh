#!/usr/bin/env bash
# What: qsub, the wrapper that Slurm has for those who know PBS; Debian slurm-wlm-torque 22.05.8-4+deb12u3.
# Guess: a PBS script is submitted as it is. sbatch reads `#PBS` lines, and qsub, which calls it, says that it aims to be
#   feature-compatible with PBS' qsub.
# Happens: `#PBS -o`, `-e`, `-j oe` and, for the files' names, `-N` in the script have no effect, because qsub gives sbatch
#   -o and -e of its own each time. `nodes=1:ppn=2+1:ppn=1` asks for 2 nodes and 6 tasks, not 3: the sum of all ppn times
#   the number of nodes. A script on standard input (`echo ./prog | qsub`) is usage and status 2, and a walltime with days
#   is invalid. What is wrong stands on standard output, where `id=$(qsub job.sh)` takes it for the job's number.
# Who meets it: whoever moves scripts from Torque or PBS Pro to a PC cluster with Slurm. Output appears in other files, and
#   a job for uneven nodes waits, or is refused.
# Instead: `sbatch job.sh`: it takes all these `#PBS` lines and standard input. Else -o, -e and -j on qsub's command line.
#   `qsub --sbatchline job.sh` prints what would be run.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
chmod 755 "$T"; cd "$T"
apt-get download -q slurm-wlm-torque=22.05.8-4+deb12u3 libslurm-perl=22.05.8-4+deb12u3 libswitch-perl slurm-client=22.05.8-4+deb12u3 libslurm38=22.05.8-4+deb12u3 slurm-wlm-basic-plugins=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1 libmunge2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm PERL5LIB=$libraries/perl5/5.36:$T/usr/share/perl5
export SLURM_CONF=$T/slurm.conf
printf 'ClusterName=lab\nSlurmctldHost=pc1(192.0.2.1)\nPluginDir=%s\nNodeName=pc1\n' "$libraries/slurm-wlm" >slurm.conf
printf '#!/bin/sh\n#PBS -N mine\n#PBS -o mine.out\n#PBS -j oe\n' >job.sh
qsub() {
    local status=0
    perl usr/bin/qsub "$@" >words 2>&1 || status=$?
    sed -E 's,\S*/(usr/bin/sbatch),\1,; /^ /d; /^$/d; s/^Usage:$/usage/' words; echo "status $status"
}
{
    qsub --sbatchline job.sh
    qsub --sbatchline -l nodes=1:ppn=2+1:ppn=1 job.sh
    qsub <<<./prog
    qsub --sbatchline -l walltime=1:00:00:00 job.sh
} | tee out
diff - out <<'P'
usr/bin/sbatch -e job.sh.e%A -o job.sh.o%A job.sh
status 0
usr/bin/sbatch -e job.sh.e%A -o job.sh.o%A -N2 -n6 job.sh
status 0
usage
status 2
Invalid time limit specified (1:00:00:00)
status 255
P
echo "as observed: lines of the script have no effect, and uneven nodes are multiplied"
