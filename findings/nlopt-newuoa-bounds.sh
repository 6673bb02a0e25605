#!/usr/bin/env bash
# What: bounds given to NLopt's LN_NEWUOA; PyPI nlopt 2.11.0.
# Guess: they are kept, as by its other algorithms, or refused with invalid_argument, as GN_DIRECT refuses to have none.
# Happens: they are dropped: the result lies outside, with the status SUCCESS or XTOL_REACHED. (A start outside the bounds is
#   refused, so they are known.) The function is called with values outside, too: where it then has NaN, the result is NaN,
#   with XTOL_REACHED, and a good value found before is lost.
# Who meets it: LN_NEWUOA and LN_BOBYQA are exchanged in scripts, and physical parameters (lengths, concentrations) become
#   negative.
# Instead: LN_BOBYQA. LN_NEWUOA_BOUND keeps the bounds, but ends here with RoundoffLimited.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile nlopt==2.11.0 numpy==2.4.6
cat >program.py <<'E'
import math, nlopt
lowest = 9
def parabola(x, gradient):
    global lowest
    lowest = min(lowest, x[0])
    return (x[0] + 1) ** 2 + x[1] ** 2
def roots(x, gradient):     # the least value in the bounds is at 0 0
    global lowest
    lowest = min(lowest, x[0])
    return math.sqrt(x[0]) + x[1] ** 2 if x[0] >= 0 else math.nan
results = {value: name for name, value in vars(nlopt).items() if name in
           ("SUCCESS", "FTOL_REACHED", "XTOL_REACHED", "MAXEVAL_REACHED", "STOPVAL_REACHED")}
for function in parabola, roots:
    for algorithm in "LN_BOBYQA", "LN_NELDERMEAD", "LN_NEWUOA_BOUND", "LN_NEWUOA":
        lowest = 9
        o = nlopt.opt(getattr(nlopt, algorithm), 2)
        o.set_min_objective(function); o.set_lower_bounds([0, 0]); o.set_upper_bounds([2, 2])
        o.set_xtol_rel(1e-6); o.set_maxeval(500)
        try:
            x = o.optimize([1, 1])
            result = f"x {x[0] + 0:.1f} {x[1] + 0:.1f}, {results[o.last_optimize_result()]}"
        except Exception as error: result = type(error).__name__
        print(f"{function.__name__} {algorithm}: {result},", "called outside" if lowest < 0 else "called inside")
E
v/bin/python program.py | tee out
diff - out <<'E'
parabola LN_BOBYQA: x 0.0 0.0, XTOL_REACHED, called inside
parabola LN_NELDERMEAD: x 0.0 0.0, XTOL_REACHED, called inside
parabola LN_NEWUOA_BOUND: RoundoffLimited, called inside
parabola LN_NEWUOA: x -1.0 0.0, SUCCESS, called outside
roots LN_BOBYQA: x 0.0 0.0, SUCCESS, called inside
roots LN_NELDERMEAD: x 0.0 0.0, XTOL_REACHED, called inside
roots LN_NEWUOA_BOUND: RoundoffLimited, called inside
roots LN_NEWUOA: x nan nan, XTOL_REACHED, called outside
E
echo "as observed: LN_NEWUOA drops bounds"
