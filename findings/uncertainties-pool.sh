#!/usr/bin/env bash
# What: Pool.map of a function with numbers of uncertainties that share one error; PyPI uncertainties 3.2.3.
# Guess: the sum of the results is that of a loop: the package follows which error is in which number.
# Happens: each chunk of results that comes back from a process has an error of its own. The error of the sum depends on the
#   length of the chunks, and so on the number of processes: it is too small, by sqrt(n) for n chunks. No warning. The
#   technical guide says that what is pickled separately is not correlated; Pool.map pickles by chunks, and does not say so.
# Who meets it: a calibration constant with an error, and points that are worked on in parallel: with multiprocessing,
#   joblib, mpi4py.futures or Dask. More processes, smaller error bars.
# Instead: numbers and derivatives as results, and ufloat in the parent; or unumpy on whole arrays in one process.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install uncertainties==3.2.3
cat >program.py <<'P'
import multiprocessing
from uncertainties import ufloat
scale = ufloat(1, 0.1)
def function(k): return scale * k
if __name__ == "__main__":
    numbers = [10] * 16
    print("loop:", sum(map(function, numbers)))
    for processes in 1, 2, 4:
        with multiprocessing.Pool(processes) as pool:
            print(f"{processes} processes:", sum(pool.map(function, numbers)))
    with multiprocessing.Pool(4) as pool:
        print("4 processes, one chunk:", sum(pool.map(function, numbers, chunksize=16)))
P
v/bin/python program.py | tee out
diff - out <<'P'
loop: 160+/-16
1 processes: 160+/-8
2 processes: 160+/-6
4 processes: 160+/-4
4 processes, one chunk: 160+/-16
P
echo "as observed: the error of a sum of results depends on the number of processes"
