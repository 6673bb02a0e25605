#!/usr/bin/env bash
# What: cache_directory of executorlib with a function of a module that is edited; PyPI executorlib 1.11.0 with its
#   extra `cache`.
# Guess: a result is taken from the cache where function and arguments are those of before; a function that was edited
#   is another one, as it is where it stands in the script itself.
# Happens: a function of a module is known by its name only. After the module is edited the old result is returned, at
#   once and without a word. Functions of the main script, also those that call the module, are known by their own
#   code, so the former change and the latter do not. random.random() is the first run's number for ever.
# Who meets it: who keeps the model in model.py and the study in study.py: a bug fixed in the model changes no result.
# Instead: another cache_directory for each version of the code, such as one with the commit's name in it.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install 'executorlib[cache]==1.11.0'
cat >study.py <<'P'
from executorlib import SingleNodeExecutor
import model
def here(x): return FACTOR * x
def calls(x): return model.f(x)
if __name__ == "__main__":
    with SingleNodeExecutor(max_workers=1, cache_directory="cache") as executor:
        for name, f in ("of the script", here), ("of the module", model.f), ("of the script, calls the module", calls):
            print(f"{name}: {executor.submit(f, 3).result()}")
P
for factor in 2 100; do
    echo "def f(x): return $factor * x" >model.py
    sed "s/FACTOR/$factor/" study.py >run.py
    echo "factor $factor"
    PATH="$T/v/bin:$PATH" v/bin/python run.py
done | tee out
diff - out <<'P'
factor 2
of the script: 6
of the module: 6
of the script, calls the module: 6
factor 100
of the script: 300
of the module: 6
of the script, calls the module: 6
P
echo "as observed: executorlib's cache has results of a module as it was before"
