#!/usr/bin/env bash
# What: an array, or a dictionary with numbers as keys, from one job to the next; PyPI jobflow 0.4.0, numpy 2.4.6.
# Guess: the next job gets what the first one returned, as when the functions are called, or an error.
# Happens: it gets lists, and keys of text. `2 * a` has the numbers twice instead of doubled, `a + b` puts one behind the
#   other, so means and maxima are half of what they were, and `d.get(2, 0)` is 0. Only some uses (`a * a`) are an error.
# Who meets it: functions that are right when called, and get `@job` in front: forces, spectra, counts by atomic number.
# Instead: `np.asarray(a)` first in each job, and text for keys.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install jobflow==0.4.0 maggma==0.77.1 numpy==2.4.6 pydantic==2.14.4
cat >program.py <<'E'
import numpy as np
from jobflow import Flow, job, run_locally
def give(value): return value
uses = {"mean(2 * a)": lambda a: float(np.mean(2 * a)), "max(a + a)": lambda a: float(max(a + a)),
        "mean(2 * asarray(a))": lambda a: float(np.mean(2 * np.asarray(a))), "sum(a * a)": lambda a: float(sum(a * a)),
        "d.get(2, 0)": lambda d: d.get(2, 0), "d.get('2', 0)": lambda d: d.get("2", 0)}
def use(name, value): return uses[name](value)
a = np.array([1.0, 2.0, 6.0])
for name, value in (("mean(2 * a)", a), ("max(a + a)", a), ("sum(a * a)", a), ("mean(2 * asarray(a))", a),
                    ("d.get(2, 0)", {1: 10, 2: 20}), ("d.get('2', 0)", {"1": 10, "2": 20})):
    first = job(give)(value)
    second = job(use)(name, first.output)
    done = run_locally(Flow([first, second]), log=False)
    result = done[second.uuid][1].output if second.uuid in done else "failed"
    print(f"{name} of {value}: called {use(name, give(value))}, as jobs {result}")
E
v/bin/python -W ignore program.py 2>/dev/null | tee out
diff - out <<'E'
mean(2 * a) of [1. 2. 6.]: called 6.0, as jobs 3.0
max(a + a) of [1. 2. 6.]: called 12.0, as jobs 6.0
sum(a * a) of [1. 2. 6.]: called 41.0, as jobs failed
mean(2 * asarray(a)) of [1. 2. 6.]: called 6.0, as jobs 6.0
d.get(2, 0) of {1: 10, 2: 20}: called 20, as jobs 0
d.get('2', 0) of {'1': 10, '2': 20}: called 20, as jobs 20
E
echo "as observed: jobs get lists for arrays, and text for numbers as keys"
