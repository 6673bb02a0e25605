#!/usr/bin/env bash
# What: `jug execute` after a process of jug was killed in a task; PyPI jug 2.7.0.
# Guess: the task is computed by the next `jug execute`, or it waits, or an error says that the task is locked.
# Happens: it ends at once with 0 and a table without that task, now and each time: the lock of the killed
#   process stays, and means 'another process does it'. `jug status` counts it as active.
# Who meets it: jobs that run out of memory, or a PC that is switched off: all later jobs are
#   COMPLETED, `jug execute && sbatch next` goes on, and the result is not there. (After SIGTERM the lock is taken back.)
# Instead: `jug cleanup --locks-only` while no jug runs, and `jug check` for the status: 0 means that all is done.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install jug==2.7.0
cat >jugfile.py <<'P'
import os, time
from jug import TaskGenerator
@TaskGenerator
def fast(x): return x
@TaskGenerator
def slow(x):
    if os.environ.get("SLOW"): time.sleep(60)
    return x
results = [slow(1), fast(2)]
P
run() {
    status=0; v/bin/jug "$@" --will-cite >log 2>&1 || status=$?
    echo "jug $*: status $status; $(grep -E 'slow' log | xargs || true)"
}
{
    SLOW=1 timeout -s KILL 4 v/bin/jug execute --will-cite >log 2>&1 || echo "killed"
    run execute
    run execute
    run status
    run check
    run cleanup --locks-only
    run execute
    run check
} 2>/dev/null | tee out
diff - out <<'P'
killed
jug execute: status 0; 
jug execute: status 0; 
jug status: status 1; 0 0 0 0 1 jugfile.slow
jug check: status 1; 
jug cleanup --locks-only: status 0; 
jug execute: status 0; 1 0 jugfile.slow
jug check: status 0; 
P
echo "as observed: a task whose process was killed is never computed, with status 0"
