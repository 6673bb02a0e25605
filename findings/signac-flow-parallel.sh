#!/usr/bin/env bash
# What: `submit --bundle N --parallel` of signac-flow; PyPI signac-flow 0.29.1, signac 2.4.1. `sbatch` is a
#   stand-in that keeps the script, which bash then runs, as a node would.
# Guess: the script has `set -e`, so a job of Slurm one of whose operations fails has failed, as without --parallel.
# Happens: with --parallel the operations are started with `&`, and a bare `wait` ends the script with status 0. Where
#   all operations failed, Slurm takes the job for completed: a job with `afterok` starts, and no mail tells of it.
# Who meets it: who bundles small operations to fill a node, and looks for failures in Slurm.
# Instead: `python project.py status` afterwards, which goes by the post-conditions; without these, a template of one's
#   own that waits for each process.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install signac-flow==0.29.1 signac==2.4.1
mkdir shim study
cat >shim/sbatch <<'P'
#!/bin/bash
[ "${1-}" != --version ] || { echo slurm 22.05.8; exit; }
cat "${@:$#}" >"$HOME/script"
P
printf '#!/bin/sh\n' >shim/squeue; chmod +x shim/*
export PATH="$T/shim:$T/v/bin:$PATH"
cd study
cat >project.py <<'P'
import flow
class Project(flow.FlowProject): pass
@Project.post.isfile("result")
@Project.operation
def simulate(job):
    if job.sp.n != 1: raise RuntimeError("diverged")
    open(job.fn("result"), "w").write("1")
if __name__ == "__main__": Project().main()
P
python -c 'import signac; project = signac.init_project(); [project.open_job({"n": n}).init() for n in (1, 2, 3)]'
run() { # name, options
    rm -f workspace/*/result; python project.py submit "${@:2}" >"$T/words" 2>&1 || cat "$T/words"
    status=0; bash "$T/script" >"$T/words" 2>&1 || status=$?
    echo "$1: status $status, $(grep -c '^set -e' "$T/script") set -e, $(grep '^RuntimeError' "$T/words" | sort -u)"
}
{
    run serial --bundle 3
    run parallel --bundle 3 --parallel
    echo "$(ls workspace/*/result | wc -l) of 3 have a result"
} | tee "$T/out"
diff - "$T/out" <<'P'
serial: status 1, 1 set -e, RuntimeError: diverged
parallel: status 0, 1 set -e, RuntimeError: diverged
1 of 3 have a result
P
echo "as observed: a parallel bundle of operations that fail exits with 0"
