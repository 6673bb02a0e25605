#!/usr/bin/env bash
# What: threads_per_core of executorlib's SingleNodeExecutor; PyPI executorlib 1.11.0.
# Guess: the 'number of OpenMP threads to be used for each function call', as its documentation has it: the function has
#   OMP_NUM_THREADS=2, and with max_cores=2 one call at a time runs.
# Happens: the entry is dropped. OMP_NUM_THREADS is not set, so each call has as many threads as the PC has processors,
#   and two calls run at once. A misspelled entry is an error, so this one seems to be understood.
# Who meets it: who tries calls with OpenMP or BLAS in them on a PC before they go to Slurm, where the entry makes
#   srun's --cpus-per-task: N calls with N threads each are N times too many, and are slower than one after another.
# Instead: os.environ["OMP_NUM_THREADS"] in the program that makes the executor, and max_workers.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install executorlib==1.11.0
cat >program.py <<'P'
import os, time
from executorlib import SingleNodeExecutor
def call():
    import os, time
    start = time.time(); time.sleep(2)
    return start, time.time(), os.environ.get("OMP_NUM_THREADS")
def show(name, entries):
    with SingleNodeExecutor(max_cores=2, resource_dict=dict(entries)) as executor:
        calls = [f.result() for f in [executor.submit(call), executor.submit(call)]]
    at_once = calls[0][0] < calls[1][1] and calls[1][0] < calls[0][1]
    print(f"{name}: {'at once' if at_once else 'one after another'}, OMP_NUM_THREADS is {calls[0][2]}")
if __name__ == "__main__":
    show("no entry", {})
    show("threads_per_core=2", {"cores": 1, "threads_per_core": 2})
    try:
        show("misspelled", {"threads_per_cor": 2})
    except Exception:
        print("misspelled: an error")
    os.environ["OMP_NUM_THREADS"] = "2"
    show("set before", {})
P
env -u OMP_NUM_THREADS PATH="$T/v/bin:$PATH" v/bin/python program.py | tee out
diff - out <<'P'
no entry: at once, OMP_NUM_THREADS is None
threads_per_core=2: at once, OMP_NUM_THREADS is None
misspelled: an error
set before: at once, OMP_NUM_THREADS is 2
P
echo "as observed: SingleNodeExecutor drops threads_per_core"
