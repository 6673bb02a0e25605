#!/usr/bin/env bash
# What: submit_job(dependency_list=[...]) of pysqa with the templates that it has for schedulers; PyPI pysqa 1.1.1.
# Guess: the job waits for the others, as with Slurm and Torque, or pysqa says that this scheduler's adapter cannot do it.
# Happens: with queue_type SGE and LSF the list is dropped: the script has no line for it, and the job starts at once.
#   An own template without a line for dependency_list drops it, too.
# Who meets it: chains of jobs, and pyiron's workflows, that were written on one cluster and run on another: the second job
#   reads files that are not there yet, or those of the last time.
# Instead: an own template with the scheduler's line, such as `#BSUB -w`, and a look at run_queue.sh.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
mkdir "$T/bin"; cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install pysqa==1.1.1 defusedxml==0.7.1
for name in sbatch bsub qsub; do       # each takes the script, and gives a number in its way
    printf '#!/bin/sh\necho "%s"\n' "$([ $name = bsub ] && echo 'Job <7> is submitted' || echo 7)" >bin/$name
done
chmod +x bin/*; PATH=$T/bin:$PATH
cat >program.py <<'P'
from pysqa import QueueAdapter
for kind in "SLURM", "TORQUE", "SGE", "LSF":
    job = QueueAdapter(queue_type=kind).submit_job(working_directory=kind, command="solver", dependency_list=[4242])
    lines = [line for line in open(f"{kind}/run_queue.sh").read().split("\n") if "4242" in line]
    print(f"{kind}: job {job},", *lines or ["no dependency"])
P
v/bin/python -W error::UserWarning program.py | tee out
diff - out <<'P'
SLURM: job 7, #SBATCH --dependency=afterok:4242
TORQUE: job 7, #PBS -W depend=afterok:4242
SGE: job 7, no dependency
LSF: job 7, no dependency
P
echo "as observed: with two schedulers pysqa drops the list of jobs to wait for"
