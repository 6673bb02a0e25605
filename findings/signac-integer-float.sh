#!/usr/bin/env bash
# What: state points with an integer and with a float of the same value in signac; PyPI signac 2.4.1, numpy 2.3.5.
# Guess: {"T": 1} and {"T": 1.0} are one job, as they are equal in Python; or they are two, also for find_jobs.
# Happens: open_job makes two jobs of them, and find_jobs and groupby take them for equal. A study that is extended by
#   np.linspace(1, 4, 4) has seven jobs where four were meant, the results so far are not found by the new names, and
#   each group of T has two jobs. True is equal to 1 in a search as well.
# Who meets it: who first writes T in 1, 2, 3 and later uses NumPy, a YAML file with 1.0 or a division: runs are done
#   again, and sums or counts over find_jobs are twice too many.
# Instead: float(T) always, before open_job; compare len(project) with what was meant.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install signac==2.4.1 numpy==2.3.5
mkdir study; cd study
cat >program.py <<'P'
import signac, numpy as np
project = signac.init_project()
for T in 1, 2, 3:
    job = project.open_job({"T": T})
    job.init(); job.doc.energy = 10 * T
for T in np.linspace(1, 4, 4):
    project.open_job({"T": T}).init()
print("jobs:", len(project))
print("energy of T=1 and 1.0:", *(project.open_job({"T": T}).doc.get("energy") for T in (1, 1.0)))
for T in 1, 1.0, True:
    print(f"find_jobs, T={T}:", *sorted(repr(job.sp.T) for job in project.find_jobs({"T": T})))
print("groupby:", *(len(list(group)) for T, group in project.groupby("T")))
P
"$T/v/bin/python" -W ignore program.py | tee out
diff - out <<'P'
jobs: 7
energy of T=1 and 1.0: 10 None
find_jobs, T=1: 1 1.0
find_jobs, T=1.0: 1 1.0
find_jobs, T=True: 1 1.0
groupby: 2 2 2 1
P
echo "as observed: 1 and 1.0 are two jobs for open_job, and equal for find_jobs"
