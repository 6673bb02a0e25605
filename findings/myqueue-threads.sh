#!/usr/bin/env bash
# What: MyQueue's resources with fewer processes than cores, as `-R 8:2:1h`, on Slurm; PyPI myqueue 26.8.1.
# Guess: two processes with four threads each, for the job asks for --cpus-per-task=4.
# Happens: the script has `export OMP_NUM_THREADS=1`: two threads, and six of the eight processors are idle. With one process
#   (`s:8:1h`) the variable is not set. Where OMP_NUM_THREADS is set on the head, that value is what all jobs have.
# Who meets it: programs with MPI and OpenMP, for which the number of processes is given at all. Only the time tells.
# Instead: OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK in the script that is submitted, not before `mq submit`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
mkdir "$T/.myqueue" "$T/run"; cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install myqueue==26.8.1
cat >.myqueue/config.py <<'P'
config = {'scheduler': 'slurm', 'mpiexec': 'srun', 'nodes': [('all', {'cores': 8, 'memory': '8G'})]}
P
cd run; touch program.py; unset OMP_NUM_THREADS
show() { # resources
    echo "$1:" "$(../v/bin/mq submit program.py -R "$1" -z -v |
        grep -oE -e '--(ntasks|cpus-per-task)=[0-9]+|OMP_NUM_THREADS=[0-9]+|^ .*python3.*py' | xargs)"
}
{ show 8:1h; show 8:2:1h; show s:8:1h; } | tee out
diff - out <<'P'
8:1h: --ntasks=8 --cpus-per-task=1 OMP_NUM_THREADS=1 srun python3 program.py
8:2:1h: --ntasks=2 --cpus-per-task=4 OMP_NUM_THREADS=1 srun python3 program.py
s:8:1h: --ntasks=8 --cpus-per-task=1 python3 program.py
P
echo "as observed: MyQueue asks for four processors for each process, and has one thread on them"
