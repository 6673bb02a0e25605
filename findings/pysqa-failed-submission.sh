#!/usr/bin/env bash
# What: submit_job of pysqa where the scheduler refuses the job, and the status of that job; PyPI pysqa 1.1.1.
# Guess: an exception, with what sbatch said.
# Happens: submit_job returns None, and what sbatch said is in a file pysqa.err in the job's folder. get_status_of_jobs has
#   'finished' for None, as for each job that is not in the queue.
# Who meets it: programs that submit and then wait until all are 'finished': a misspelled partition, a limit that is exceeded
#   or a controller that does not answer, and they go on to read the results, of the last time or none. So it is without
#   `cores`, for the default makes --ntasks=None.
# Instead: a test that the number is not None, and one for the results.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
mkdir "$T/bin"; cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install pysqa==1.1.1
cat >bin/sbatch <<'P'
#!/bin/sh
if grep -q 'partition=all$' "$2" && ! grep -q ntasks=None "$2"; then echo 7
else echo "sbatch: error: Batch job submission failed" >&2; exit 1
fi
P
printf '#!/bin/sh\necho "7|user|R|run|/run"\n' >bin/squeue
chmod +x bin/*; PATH=$T/bin:$PATH
cat >program.py <<'P'
import os
from pysqa import QueueAdapter
adapter = QueueAdapter(queue_type="SLURM")
def submit(**options):
    job = adapter.submit_job(working_directory=os.path.abspath("run"), command="solver", **options)
    print(f"{options}: job {job}, {adapter.get_status_of_jobs([job])}")
submit(cores=4, partition="all")
submit(cores=4, partition="al")
submit(partition="all")
P
{
    v/bin/python -W error::UserWarning program.py 2>&1; echo "status $?"
    grep -h . run/pysqa.err; grep ntasks run/run_queue.sh
} | tee out
diff - out <<'P'
{'cores': 4, 'partition': 'all'}: job 7, ['running']
{'cores': 4, 'partition': 'al'}: job None, ['finished']
{'partition': 'all'}: job None, ['finished']
status 0
sbatch: error: Batch job submission failed
#SBATCH --ntasks=None
P
echo "as observed: for pysqa a job that the scheduler refused is finished"
