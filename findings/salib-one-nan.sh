#!/usr/bin/env bash
# What: SALib's sobol.analyze where one of the model's results is NaN or infinite; PyPI SALib 1.6.0.
# Guess: indices of NaN, as NumPy would have and as SALib's Morris and RBD-FAST give, or an error.
# Happens: all indices are 0.0, with confidence intervals of 0.0, and for NaN there is no warning: no parameter has any
#   influence, and that is certain.
# Who meets it: studies whose model runs are jobs: one of thousands failed or did not converge, and its result is NaN.
# Instead: `assert numpy.isfinite(Y).all()` before.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile SALib==1.6.0 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
cat >program.py <<'E'
import warnings, numpy as np
from SALib.sample import sobol as sobol_sample, morris as morris_sample, latin
from SALib.analyze import sobol, morris, rbd_fast
problem = {"num_vars": 2, "names": ["a", "b"], "bounds": [[0, 1], [0, 1]]}
def model(X, last):
    Y = X[:, 0] + 3 * X[:, 1]
    if last is not None: Y[-1] = last
    return Y
def show(values): return [round(float(value), 2) for value in values]
for last in None, np.nan, np.inf:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X = sobol_sample.sample(problem, 256, seed=1)
        s = sobol.analyze(problem, model(X, last), seed=1)
    print(f"{'all results' if last is None else 'one is ' + str(last)}: Sobol S1 {show(s['S1'])} ST {show(s['ST'])}",
          f"ST_conf {show(s['ST_conf'])},", "warnings" if caught else "no warnings")
    if last is not np.inf:
        X = morris_sample.sample(problem, 100, seed=1)
        m = morris.analyze(problem, X, model(X, last), seed=1)["mu_star"]
        X = latin.sample(problem, 1000, seed=1)
        r = rbd_fast.analyze(problem, X, model(X, last), seed=1)["S1"]
        print("  Morris mu_star", show(np.ma.filled(m, np.nan)), "RBD-FAST S1", show(r))
E
v/bin/python -W ignore program.py 2>words | tee out
diff - out <<'E'
all results: Sobol S1 [0.1, 0.9] ST [0.1, 0.9] ST_conf [0.02, 0.13], no warnings
  Morris mu_star [1.0, 3.0] RBD-FAST S1 [0.09, 0.9]
one is nan: Sobol S1 [0.0, 0.0] ST [0.0, 0.0] ST_conf [0.0, 0.0], no warnings
  Morris mu_star [nan, nan] RBD-FAST S1 [nan, nan]
one is inf: Sobol S1 [0.0, 0.0] ST [0.0, 0.0] ST_conf [0.0, 0.0], warnings
E
echo "as observed: with one NaN among the results all Sobol indices are 0.0"
