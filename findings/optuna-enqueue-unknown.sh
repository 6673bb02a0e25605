#!/usr/bin/env bash
# What: study.enqueue_trial with a parameter that the program does not ask for; PyPI optuna 5.0.0.
# Guess: an error or a warning, as for a value out of range: 'Fixed parameter ... is out of range'.
# Happens: the trial runs with a random value, and nothing is said: the point that should be computed first is not computed.
#   A parameter that is left out is random as well, as documented.
# Who meets it: the known good settings, or the corners of a space, are queued as first trials, and a name is misspelled or
#   has been renamed in the program since.
# Instead: after the run, compare trial.params with trial.system_attrs["fixed_params"] for each trial.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile optuna==5.0.0 sqlalchemy==2.1.9 numpy==2.4.6
cat >program.py <<'E'
import warnings, optuna
optuna.logging.set_verbosity(optuna.logging.WARNING)
def program(trial): return trial.suggest_float("threshold", 0, 1)
for queued in {"threshold": 0.5}, {"treshold": 0.5}, {"threshold": 2.5}:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
        study.enqueue_trial(queued)
        study.optimize(program, n_trials=1)
    used = study.trials[0].params["threshold"]
    print(f"queued {queued}: used {used:.3f},", "a warning" if caught else "no warning")
E
v/bin/python program.py | tee out
diff - out <<'E'
queued {'threshold': 0.5}: used 0.500, no warning
queued {'treshold': 0.5}: used 0.417, no warning
queued {'threshold': 2.5}: used 2.500, a warning
E
echo "as observed: a queued parameter of another name is dropped"
