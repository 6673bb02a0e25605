#!/usr/bin/env bash
# What: the status of `python -m scoop`; PyPI scoop 0.7.2.0.
# Guess: the one of the program: its launcher ends with sys.exit(rootTaskExitCode), under 'Exit with the proper exit code'.
# Happens: it is 0 whatever happens: an exception in a worker's function, an error before the first one, and sys.exit(3).
# Who meets it: a job script with `set -e`, `&&`, or `--dependency=afterok`: the next step takes results that are not there
#   or old.
# Instead: let the program write a file as its last step, and test for that; or multiprocessing and mpi4py.futures.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile scoop==0.7.2.0 greenlet==3.5.6 pyzmq==27.3.0
cat >program.py <<'P'
import sys
from scoop import futures
def square(x):
    if how == "exception" and x == 2: raise ValueError("no square of 2")
    return x * x
how = sys.argv[1]
if __name__ == "__main__":
    if how == "early": open("nosuch")
    total = sum(futures.map(square, range(4)))
    print("total", total)
    if how == "exit": sys.exit(3)
P
for how in well exception early exit; do
    status=0; timeout 60 v/bin/python -m scoop -n 2 program.py $how >out.$how 2>words.$how || status=$?
    echo "$how: status $status, $(grep -cE '^total 14' out.$how || true) results," \
        "$(grep -oE '^(ValueError|FileNotFoundError|SystemExit)' out.$how | sort -u | xargs)"
done | tee out
diff - out <<'P'
well: status 0, 1 results, 
exception: status 0, 0 results, ValueError
early: status 0, 0 results, FileNotFoundError
exit: status 0, 1 results, SystemExit
P
echo "as observed: python -m scoop exits with 0 where its program failed"
