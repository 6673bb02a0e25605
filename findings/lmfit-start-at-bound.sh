#!/usr/bin/env bash
# What: a fit with lmfit that starts at a bound, as of `value=0, min=0`; PyPI lmfit 1.3.4, scipy 1.17.1, numpy 2.4.6.
# Guess: a start that the bounds allow is a start: the parameter moves off, whatever the method.
# Happens: with nelder, cg, lbfgsb, tnc, slsqp and trust-constr it stays at 0, the others fit the rest, and success is True.
#   leastsq (the default), powell and a start of 0.001 find the minimum. lmfit maps a bounded parameter to one without
#   bounds by sqrt(x**2 + 1) or a sine, whose slope is 0 at the bound.
# Who meets it: an offset, background or rate with min=0 that starts at 0, and method='nelder' as is advised for models
#   with noise, such as simulations on a cluster. The result says that there is no background.
# Instead: a start inside the bounds, and a look for results that equal their start.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OMP_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install lmfit==1.3.4 scipy==1.17.1 numpy==2.4.6
cat >program.py <<'P'
import lmfit, numpy as np
x = np.linspace(0, 10, 50)
line = lmfit.Model(lambda x, slope, offset: slope * x + offset)
for method in "leastsq", "powell", "nelder", "cg", "lbfgsb", "tnc", "slsqp", "trust-constr":
    print(f"{method}:", end="")
    for start in 0.001, 0:
        parameters = lmfit.create_params(slope=1, offset=dict(value=start, min=0))
        result = line.fit(3 * x + 2, parameters, x=x, method=method)
        values = result.params.valuesdict()
        print(f" from {start}: {values['slope']:.2f} x + {abs(values['offset']):.2f}, success {result.success}",
              end=";" if start else "\n")
P
v/bin/python program.py 2>/dev/null | tee out
diff - out <<'P'
leastsq: from 0.001: 3.00 x + 2.00, success True; from 0: 3.00 x + 2.00, success True
powell: from 0.001: 3.00 x + 2.00, success True; from 0: 3.00 x + 2.00, success True
nelder: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
cg: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
lbfgsb: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
tnc: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
slsqp: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
trust-constr: from 0.001: 3.00 x + 2.00, success True; from 0: 3.30 x + 0.00, success True
P
echo "as observed: a parameter of lmfit that starts at its bound stays there, and the fit is a success"
