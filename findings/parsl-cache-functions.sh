#!/usr/bin/env bash
# What: `@python_app(cache=True)` of Parsl with a function among the arguments; PyPI parsl 2026.10.26.
# Guess: the manual calls two invocations equivalent if their arguments are identical. Two functions are not; and an
#   argument of a type that Parsl cannot compare raises ValueError (set, bytes, functools.partial).
# Happens: a function counts by its name and its module only. All lambdas of a program are one, and so are all that a
#   function returned: the second call gets the first one's result. A tuple gets the result of a list, too.
# Who meets it: sweeps that give an app the model to fit, an objective or a reduction: `fit(lambda x: x + 1, data)`,
#   then `fit(lambda x: 10 * x, data)`. All rows of the table have the first one's figures.
# Instead: give the function's name or parameters as strings and numbers, or switch caching off for such apps.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install parsl==2026.10.26
cat >program.py <<'P'
import functools, logging
import parsl
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor

def power(n):
    def of(x):
        return x ** n
    return of

def apply(f, x):
    return f(x)

def kind(x):
    return type(x).__name__

with parsl.load(Config(executors=[ThreadPoolExecutor()], run_dir="runs")):
    logging.disable(logging.CRITICAL)
    def call(f, *arguments):
        try:
            return f(*arguments).result()
        except ValueError:
            return "ValueError"
    for cache in False, True:
        app, name = parsl.python_app(apply, cache=cache), parsl.python_app(kind, cache=cache)
        print(f"cache={cache}")
        print("lambdas:", call(app, lambda x: x + 1, 4), call(app, lambda x: 10 * x, 4))
        print("powers:", call(app, power(2), 4), call(app, power(3), 4))
        print("partial:", call(app, functools.partial(pow, 2), 4), call(app, functools.partial(pow, 3), 4))
        print("list, tuple:", call(name, [1, 2]), call(name, (1, 2)))
P
HOME=$T v/bin/python program.py 2>errors | tee out || { cat errors; exit 1; }
diff - out <<'P'
cache=False
lambdas: 5 40
powers: 16 64
partial: 16 81
list, tuple: list tuple
cache=True
lambdas: 5 5
powers: 16 16
partial: ValueError ValueError
list, tuple: list list
P
echo "as observed: Parsl's cache tells functions apart by their names only"
