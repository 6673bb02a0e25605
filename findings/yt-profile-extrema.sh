#!/usr/bin/env bash
# What: yt's create_profile with the data's own extrema; PyPI yt 4.4.3, numpy 2.4.6.
# Guess: all cells are in a bin, as without extrema, and as np.histogram has its ends closed.
# Happens: the cells at the minimum and at the maximum are left out. The sum of the masses in the profile is not that of the
#   data, and where an extremum is a plateau, a large part is missing. No word.
# Who meets it: profiles of several snapshots with one set of bins, from quantities.extrema, and fields with limits: an
#   ionized fraction, a density floor or ceiling, a phase of 0 or 1.
# Instead: extrema a little wider, as np.nextafter gives.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T MPLCONFIGDIR=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install yt==4.4.3 numpy==2.4.6
cat >program.py <<'P'
import numpy as np, yt
yt.set_log_level("error")
fraction = np.linspace(0, 1, 64).reshape(4, 4, 4); fraction[2:] = 1.0      # half of the box is ionized
data = yt.load_uniform_grid({"density": (np.ones((4, 4, 4)), "g/cm**3"), "fraction": (fraction, "dimensionless")},
                            (4, 4, 4), length_unit="cm")
field, mass = ("stream", "fraction"), ("gas", "cell_mass")
everything = data.all_data()
low, high = map(float, everything.quantities.extrema(field))
def show(name, **options):
    profile = yt.create_profile(everything, field, mass, n_bins=4, weight_field=None, logs={field: False}, **options)
    print(f"{name}: {float(profile[mass].sum()):.4g} of {float(everything.sum(mass)):.4g} g")
show("no extrema")
show("extrema of the data", extrema={field: (low, high)})
show("a little wider", extrema={field: (np.nextafter(low, -1), np.nextafter(high, 2))})
print("np.histogram:", np.histogram(fraction, 4, (low, high))[0].sum(), "of", fraction.size, "cells")
P
v/bin/python program.py 2>/dev/null | tee out
diff - out <<'P'
no extrema: 1 of 1 g
extrema of the data: 0.4844 of 1 g
a little wider: 1 of 1 g
np.histogram: 64 of 64 cells
P
echo "as observed: a profile of yt leaves out the cells at its ends"
