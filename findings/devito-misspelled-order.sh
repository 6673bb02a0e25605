#!/usr/bin/env bash
# What: a misspelled keyword of Function and TimeFunction in Devito; PyPI devito 4.8.23.
# Guess: an error, as from Grid(extnt=...) and from an operator's call, which says 'Unrecognized argument'.
# Happens: it is dropped. `space_ordr=8` is the default order, 1, and `time_ordr=2` is 1: the stencil is another, and the
#   solution is less accurate or of another equation. No word.
# Who meets it: models of waves and of diffusion, all of which have these two orders. Results look plausible on fine grids.
# Instead: print(u.space_order, u.time_order) before the operator is made.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T DEVITO_LOGGING=WARNING
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install devito==4.8.23
cat >program.py <<'P'
from devito import Eq, Function, Grid, Operator, TimeFunction
grid = Grid(shape=(11,))
def show(name, kind, **options):
    u = kind(name="u", grid=grid, **options)
    orders = [f"space_order {u.space_order}"] + ([f"time_order {u.time_order}"] if kind is TimeFunction else [])
    print(f"{name}: {', '.join(orders)}, {len(u.dx.evaluate.args)} terms in u.dx")
show("space_order=8", Function, space_order=8)
show("space_ordr=8", Function, space_ordr=8)
show("time_order=2", TimeFunction, space_order=8, time_order=2)
show("time_ordr=2", TimeFunction, space_order=8, time_ordr=2)
try: Grid(shape=(11,), extnt=(1.0,))
except TypeError as e: print("Grid(extnt=...):", type(e).__name__)
try: Operator(Eq(Function(name="v", grid=grid), 1.0)).arguments(x_mm=1)
except Exception as e: print("operator(x_mm=1):", type(e).__name__, e)
P
v/bin/python program.py 2>&1 | tee out
diff - out <<'P'
space_order=8: space_order 8, 8 terms in u.dx
space_ordr=8: space_order 1, 2 terms in u.dx
time_order=2: space_order 8, time_order 2, 8 terms in u.dx
time_ordr=2: space_order 8, time_order 1, 8 terms in u.dx
Grid(extnt=...): TypeError
operator(x_mm=1): InvalidArgument Unrecognized argument `x_mm=1`
P
echo "as observed: Devito drops a misspelled order"
