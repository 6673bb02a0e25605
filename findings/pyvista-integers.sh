#!/usr/bin/env bash
# What: PyVista's filters that interpolate, with an array of integers; PyPI pyvista 0.49.1, vtk 9.7.2.
# Guess: numbers between those of the points, as floats, as NumPy's and SciPy's functions give for integers.
# Happens: the result has the type of the array: samples along a line or at points, and points from cells, are rounded, and
#   slices are cut: 0.75 is 1 here and 0 there. Nothing is said.
# Who meets it: heights, counts, grey values or temperatures that came as integers, from an image or np.arange in a first
#   test: profiles are stairs, and two filters of one field disagree.
# Instead: grid["a"] = values.astype(float) before any filter.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T MPLCONFIGDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install pyvista==0.49.1 vtk==9.7.2 numpy==2.4.6
cat >program.py <<'P'
import numpy as np, pyvista
grid = pyvista.ImageData(dimensions=(3, 2, 2))
grid["int"] = np.arange(12) % 3                  # x at the points
grid["float"] = grid["int"].astype(float)
cells = pyvista.ImageData(dimensions=(5, 2, 2))
cells.cell_data["int"] = [0, 1, 1, 4]
cells.cell_data["float"] = cells.cell_data["int"].astype(float)
points = pyvista.PolyData(np.array([[0.25, 0.5, 0.5], [0.75, 0.5, 0.5]]))
for kind in "int", "float":
    print(f"{kind}: line", grid.sample_over_line((0, 0, 0), (2, 0, 0), resolution=4)[kind].tolist(),
          "points at 0.25 and 0.75", points.sample(grid)[kind].tolist(),
          "slice at 0.75", sorted(set(grid.slice("x", origin=(0.75, 0.5, 0.5))[kind].tolist())),
          "cells to points", cells.cell_data_to_point_data()[kind][:5].tolist())
P
v/bin/python program.py 2>&1 | tee out
diff - out <<'P'
int: line [0, 1, 1, 2, 2] points at 0.25 and 0.75 [0, 1] slice at 0.75 [0] cells to points [0, 1, 1, 3, 4]
float: line [0.0, 0.5, 1.0, 1.5, 2.0] points at 0.25 and 0.75 [0.25, 0.75] slice at 0.75 [0.75] cells to points [0.0, 0.5, 1.0, 2.5, 4.0]
P
echo "as observed: filters of PyVista round or cut what they interpolate of integers"
