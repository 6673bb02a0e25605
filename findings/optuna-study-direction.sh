#!/usr/bin/env bash
# What: create_study(load_if_exists=True) of Optuna with another direction than the study has; PyPI optuna 5.0.0.
# Guess: an error: the study cannot be maximized and minimized, and trials of one value do not fit two directions.
# Happens: the study is loaded as it is, and direction= or directions= is dropped without a warning: maximize is minimize, and
#   the best trial, and what the sampler looks for, is the worst. A log line says only that the study exists. The same holds
#   for `optuna create-study --skip-if-exists`, with status 0.
# Who meets it: many processes of a cluster that share one study have load_if_exists=True. Someone finds that direction= was
#   forgotten (the default is minimize), adds it and starts the job again.
# Instead: `assert study.direction.name == "MAXIMIZE"`, or a new study_name.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile optuna==5.0.0 sqlalchemy==2.1.9 numpy==2.4.6
cat >program.py <<'E'
import warnings, optuna
from optuna.samplers import TPESampler
warnings.simplefilter("error")
optuna.logging.set_verbosity(optuna.logging.WARNING)
def accuracy(trial): return 1 - (trial.suggest_float("x", 0, 1) - 0.25) ** 2
def run(label, name, **more):
    study = optuna.create_study(study_name=name, storage="sqlite:///study.db", load_if_exists=True, sampler=TPESampler(seed=1),
                                **more)
    study.optimize(accuracy, n_trials=40)
    print(f"{label}: {[d.name for d in study.directions]}, best x {study.best_params['x']:.1f}")
run("new study, maximize", "a", direction="maximize")
run("direction forgotten", "b")
run("maximize added", "b", direction="maximize")
run("two directions", "b", directions=["maximize", "minimize"])
E
{
    v/bin/python program.py
    status=0
    export OPTUNA_STORAGE=sqlite:///study.db
    v/bin/optuna create-study --study-name b --direction maximize --skip-if-exists >words 2>&1 || status=$?
    v/bin/optuna studies -f json >list 2>words
    echo "optuna create-study --direction maximize: status $status, $(grep -o '"name": "b", "direction": \["[A-Z]*"\]' list)"
} | tee out
diff - out <<'E'
new study, maximize: ['MAXIMIZE'], best x 0.2
direction forgotten: ['MINIMIZE'], best x 1.0
maximize added: ['MINIMIZE'], best x 1.0
two directions: ['MINIMIZE'], best x 1.0
optuna create-study --direction maximize: status 0, "name": "b", "direction": ["MINIMIZE"]
E
echo "as observed: Optuna drops the direction where the study exists"
