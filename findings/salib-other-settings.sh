#!/usr/bin/env bash
# What: SALib's analyses with another setting than the samples were made with; PyPI SALib 1.6.0.
# Guess: an error: 'Incorrect number of samples', or that the sample does not fit.
# Happens: indices of other numbers, and nothing is said. Sobol without second order for samples with it (and the other way
#   round) is an error for 3 parameters, and wrong for 2 or 6: the length can be divided all the same. FAST with M=4 for a
#   sample with M=8 has 0.0 for all. Morris with the default of 4 levels for a sample with 8 has six sevenths of each effect.
# Who meets it: those who sample in one script, run the model as jobs, and analyze in another script, days later.
# Instead: keep the settings beside the samples; add a parameter that does nothing, or the sum of S1 to compare with 1.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile SALib==1.6.0 numpy==2.4.6 scipy==1.17.1 pandas==3.1.1
cat >program.py <<'E'
import warnings, numpy as np
from SALib.sample import sobol as sobol_sample, morris as morris_sample, fast_sampler
from SALib.analyze import sobol, morris, fast
def problem(n): return {"num_vars": n, "names": list("abcdef")[:n], "bounds": [[0, 1]] * n}
def model(X): return X @ np.arange(1.0, X.shape[1] + 1)        # the last one has most influence, the first one least
def show(values): return " ".join(f"{float(value):.1f}" for value in values)
def analyze(label, function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try: result = show(function())
        except Exception as error: result = type(error).__name__ + ": " + " ".join(str(error).split())[:40]
    caught = [w for w in caught if "confidence intervals" not in str(w.message)]
    print(f"{label}: {result}", *("warning" for _ in caught[:1]))
for n in 3, 2, 6:
    Y = model(sobol_sample.sample(problem(n), 1024, seed=1))
    analyze(f"Sobol, {n} parameters, right", lambda: sobol.analyze(problem(n), Y, seed=1)["S1"])
    analyze(f"Sobol, {n} parameters, calc_second_order=False",
            lambda: sobol.analyze(problem(n), Y, calc_second_order=False, seed=1)["S1"])
Y = model(fast_sampler.sample(problem(2), 1000, M=8, seed=1))
analyze("FAST, M=8 and M=8", lambda: fast.analyze(problem(2), Y, M=8, seed=1)["S1"])
analyze("FAST, M=8 and none", lambda: fast.analyze(problem(2), Y, seed=1)["S1"])
X = morris_sample.sample(problem(2), 100, num_levels=8, seed=1)
analyze("Morris, 8 levels and 8", lambda: morris.analyze(problem(2), X, model(X), num_levels=8, seed=1)["mu_star"])
analyze("Morris, 8 levels and none", lambda: morris.analyze(problem(2), X, model(X), seed=1)["mu_star"])
E
v/bin/python program.py 2>words | tee out
diff - out <<'E'
Sobol, 3 parameters, right: 0.1 0.3 0.6
Sobol, 3 parameters, calc_second_order=False: RuntimeError: Incorrect number of samples in model out
Sobol, 2 parameters, right: 0.2 0.8
Sobol, 2 parameters, calc_second_order=False: 0.1 0.5
Sobol, 6 parameters, right: 0.0 0.0 0.1 0.2 0.3 0.4
Sobol, 6 parameters, calc_second_order=False: 0.1 0.4 0.4 0.5 0.6 0.7
FAST, M=8 and M=8: 0.2 0.8
FAST, M=8 and none: 0.0 0.0
Morris, 8 levels and 8: 1.0 2.0
Morris, 8 levels and none: 0.9 1.7
E
echo "as observed: SALib analyzes samples of other settings, and gives other indices"
