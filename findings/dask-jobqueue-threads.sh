#!/usr/bin/env bash
# What: `SLURMCluster(cores=..., processes=...)`; PyPI dask-jobqueue 0.9.0, distributed and dask 2026.8.0.
# Guess: the job's cores are shared among its processes, so that a job never runs more threads than it has cores, and
#   uses all of them where there are enough.
# Happens: each process gets cores // processes threads, and the rest of the division is lost: of 8 cores in 3 processes
#   two are allocated and idle. With more processes than cores it is `--nthreads 0`, which a worker takes for as many
#   threads as it sees processors: four processes in a job of two cores are 4 x 128 threads on a node of 128, unless
#   Slurm confines jobs to their processors.
# Who meets it: who takes processes=3 for memory, and who takes more processes than cores for tasks that wait for files.
# Instead: a number of processes that divides cores.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install dask-jobqueue==0.9.0 distributed==2026.8.0 dask==2026.8.0
cat >program.py <<'P'
import asyncio, logging, os, re, shlex, subprocess, time
from dask_jobqueue import SLURMCluster
from distributed import Scheduler
logging.disable(logging.CRITICAL)
processors = len(os.sched_getaffinity(0))

async def threads(command):
    """Starts the job's command here and asks the scheduler."""
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        command = [re.sub(r"^tcp://.*", scheduler.address, word) for word in shlex.split(command)]
        worker = subprocess.Popen([*command, "--host", "127.0.0.1", "--no-dashboard"], stderr=subprocess.DEVNULL)
        wanted = int(command[command.index("--nworkers") + 1])
        end = time.time() + 60
        while len(scheduler.workers) < wanted and time.time() < end:
            await asyncio.sleep(0.2)
        found = [state.nthreads for state in scheduler.workers.values()]
        worker.terminate(); worker.wait()
        return found

if __name__ == "__main__":
    for cores, processes in (8, 4), (8, 3), (2, 4):
        with SLURMCluster(cores=cores, processes=processes, memory="4GB",
                          scheduler_options={"host": "127.0.0.1", "dashboard": False}) as cluster:
            script = cluster.job_script()
        asked = re.search(r"--cpus-per-task=(\d+)", script)[1]
        option = re.search(r"--nthreads (\d+)", script)[1]
        text = f"cores={cores}, processes={processes}: {asked} processors, --nthreads {option}"
        if option == "0":
            found = asyncio.run(threads(script.strip().splitlines()[-1]))
            text += ", in fact all" if found == [processors] * processes else f", in fact {found}"
        print(text)
P
v/bin/python program.py 2>errors | tee out || { cat errors; exit 1; }
diff - out <<'P'
cores=8, processes=4: 8 processors, --nthreads 2
cores=8, processes=3: 8 processors, --nthreads 2
cores=2, processes=4: 2 processors, --nthreads 0, in fact all
P
echo "as observed: the rest of cores / processes is idle, and 0 threads are all processors of the node"
