#!/usr/bin/env bash
# What: inputs= and overrides= of a driver's execute(); PyPI sf-hamilton 1.90.0.
# Guess: a name that no function has is refused, as an input that is missing and a name in final_vars that is not there are.
# Happens: it is dropped, without a warning. Where the input that was meant has a default value (`time_step: float = 1.0`),
#   that one is used; a misspelled override lets the function compute; and a value given in inputs= for what a function
#   of the module computes, which overrides= is for, is dropped, too. The result looks like any other.
# Who meets it: a study over inputs={"tmie_step": dt}: all results are equal, or, with one of ten parameters, nearly right.
# Instead: compare the names: set(inputs) - {v.name for v in driver.list_available_variables() if v.is_external_input}.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T HAMILTON_TELEMETRY_ENABLED=false
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile sf-hamilton==1.90.0 numpy==2.4.6 pandas==3.1.1
cat >model.py <<'P'
def speed(time_step: float = 1.0) -> float:
    return 2 * time_step
def distance(speed: float, seconds: int) -> float:
    return speed * seconds
P
cat >program.py <<'P'
from hamilton import driver
import model
d = driver.Builder().with_modules(model).build()
def run(result="distance", **settings):
    try: print(*(f"{k}={v}" for k, v in settings.items()), d.execute([result], **settings))
    except Exception as error: print(*(f"{k}={v}" for k, v in settings.items()), result, type(error).__name__)
run(inputs={"seconds": 3})
run(inputs={"seconds": 3, "time_step": 0.1})
run(inputs={"secnods": 3})
run("distnace", inputs={"seconds": 3})
run(inputs={"seconds": 3, "tmie_step": 0.1})
run(inputs={"seconds": 3}, overrides={"speed": 50.0})
run(inputs={"seconds": 3}, overrides={"spede": 50.0})
run(inputs={"seconds": 3, "speed": 50.0})
known = {v.name for v in d.list_available_variables() if v.is_external_input}
print("not known:", {"seconds", "tmie_step"} - known)
P
v/bin/python program.py 2>words | sed 's/0\.6000*[1-9]*/0.6/' | tee out
diff - out <<'P'
inputs={'seconds': 3} {'distance': 6.0}
inputs={'seconds': 3, 'time_step': 0.1} {'distance': 0.6}
inputs={'secnods': 3} distance ValueError
inputs={'seconds': 3} distnace ValueError
inputs={'seconds': 3, 'tmie_step': 0.1} {'distance': 6.0}
inputs={'seconds': 3} overrides={'speed': 50.0} {'distance': 150.0}
inputs={'seconds': 3} overrides={'spede': 50.0} {'distance': 6.0}
inputs={'seconds': 3, 'speed': 50.0} {'distance': 6.0}
not known: {'tmie_step'}
P
! grep -E 'tmie_step|spede' words
echo "as observed: Hamilton drops inputs and overrides that it does not know"
