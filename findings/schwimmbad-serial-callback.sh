#!/usr/bin/env bash
# What: pool.map with a callback in schwimmbad, serial and in parallel; PyPI schwimmbad 0.4.2.
# Guess: the callback is called with each result, "for saving results to a file", whatever pool choose_pool() gave.
# Happens: SerialPool.map returns a generator: without a loop over what map returns nothing is computed, and no callback is
#   called. MultiPool (and MPIPool, from its source) compute at once. With JoblibPool all is computed, no callback is called.
# Who meets it: scripts with choose_pool(mpi=args.mpi, processes=args.n_cores) whose callback writes the file: right with
#   MPI, and in serial the script ends at once, with status 0 and no file.
# Instead: list(pool.map(...)), also where the results are not needed.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install schwimmbad==0.4.2 multiprocess==0.70.19 joblib==1.6.0
cat >program.py <<'P'
import sys
from schwimmbad import JoblibPool, choose_pool
def worker(k):
    print("computed", k, file=sys.stderr)
    return k * k
def show(name, pool, use):
    seen = []
    with pool: use(pool.map(worker, range(3), callback=seen.append))
    print(f"{name}: {type(pool).__name__}, the callback got", seen)
if __name__ == "__main__":
    show("processes=2", choose_pool(processes=2), lambda results: None)
    show("processes=1", choose_pool(processes=1), lambda results: None)
    show("processes=1, list()", choose_pool(processes=1), list)
    show("joblib", JoblibPool(1), lambda results: None)
P
v/bin/python program.py 2>errors | tee out
diff - out <<'P'
processes=2: MultiPool, the callback got [0, 1, 4]
processes=1: SerialPool, the callback got []
processes=1, list(): SerialPool, the callback got [0, 1, 4]
joblib: JoblibPool, the callback got []
P
[ "$(grep -c computed errors)" = 9 ]    # three times three: with processes=1 and no list() nothing is computed
echo "as observed: in serial, schwimmbad computes nothing and calls no callback unless the results are read"
