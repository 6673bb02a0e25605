#!/usr/bin/env bash
# What: submit_job of pysqa with more than a queue of queue.yaml allows; PyPI pysqa 1.1.1.
# Guess: an error that names the limit, as for a queue that is not in queue.yaml.
# Happens: cores, run_time_max and memory_max are set to the limit, and less than cores_min is raised to it. The job is
#   submitted, its number is returned, and nothing is said.
# Who meets it: a job of five days in a queue with run_time_max of two is killed after two; 64 ranks are 32, of a program
#   that was set up for 64. pyiron submits by it.
# Instead: a comparison with adapter.check_queue_parameters(...), which returns what would be asked.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
mkdir "$T/bin" "$T/queues"; cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install pysqa==1.1.1
printf '#!/bin/sh\necho 7\n' >bin/sbatch; chmod +x bin/sbatch; PATH=$T/bin:$PATH    # takes the script, and gives a number
cat >queues/queue.yaml <<'P'
queue_type: SLURM
queue_primary: short
queues:
  short: {cores_max: 32, cores_min: 4, run_time_max: 172800, memory_max: 64, script: short.sh}
P
cat >queues/short.sh <<'P'
#!/bin/bash
#SBATCH --ntasks={{cores}} --time={{run_time_max // 3600}}:00:00 --mem={{memory_max}}G
{{command}}
P
cat >program.py <<'P'
from pysqa import QueueAdapter
adapter = QueueAdapter(directory="queues")
def submit(**asked):
    job = adapter.submit_job(job_name="run", working_directory="run", command="srun solver", **asked)
    print(f"{asked}: job {job},", open("run/run_queue.sh").read().split("\n")[1])
submit(cores=16, run_time_max=36000, memory_max=32)
submit(cores=64, run_time_max=432000, memory_max=256)
submit(cores=1, run_time_max=3600, memory_max=1)
try: submit(queue="long", cores=64)
except ValueError as e: print("queue='long':", type(e).__name__)
P
v/bin/python -W error::UserWarning program.py | tee out
diff - out <<'P'
{'cores': 16, 'run_time_max': 36000, 'memory_max': 32}: job 7, #SBATCH --ntasks=16 --time=10:00:00 --mem=32G
{'cores': 64, 'run_time_max': 432000, 'memory_max': 256}: job 7, #SBATCH --ntasks=32 --time=48:00:00 --mem=64G
{'cores': 1, 'run_time_max': 3600, 'memory_max': 1}: job 7, #SBATCH --ntasks=4 --time=1:00:00 --mem=1G
queue='long': ValueError
P
echo "as observed: pysqa asks for less than was wanted, up to the queue's limits"
