#!/usr/bin/env bash
# What: `[ts.positions for ts in universe.trajectory]` of MDAnalysis; PyPI MDAnalysis 2.11.0, numpy 2.4.6.
# Guess: one array for each frame, whatever the format of the file: DCD gives that.
# Happens: for XTC, TRR, AMBER's NetCDF and XYZ all arrays are one, that of the frame which was read last. After the loop
#   that is the first frame again, so each frame equals the first, and each displacement is 0. Nothing is said for those;
#   DCD's reader, which is the other one, warns that it will change.
# Who meets it: `np.array([ts.positions for ts in ...])` written and tested with DCD, or with a trajectory in memory, and
#   then used with GROMACS's files.
# Instead: ts.positions.copy(), or universe.atoms.positions, which is a copy; or trajectory.timeseries().
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OMP_NUM_THREADS=1 HOME=$T MPLCONFIGDIR=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install MDAnalysis==2.11.0 numpy==2.4.6
cat >program.py <<'P'
import MDAnalysis, numpy as np
frames = np.arange(3.0)[:, None, None] + np.zeros((3, 4, 3))        # all atoms of frame k are at k, k, k
universe = MDAnalysis.Universe.empty(4, trajectory=True)
universe.add_TopologyAttr("name", ["C"] * 4)
universe.load_new(frames.astype("f4"))
def show(name, trajectory, atoms):
    print(f"{name}: ts.positions", [float(x[0, 0]) for x in [ts.positions for ts in trajectory]], end=", ")
    print("atoms.positions", [float(x[0, 0]) for x in [atoms.positions for ts in trajectory]])
show("in memory", universe.trajectory, universe.atoms)
for kind in "xyz", "dcd", "xtc", "trr", "ncdf":
    with MDAnalysis.Writer(f"run.{kind}", 4) as writer:
        for ts in universe.trajectory: writer.write(universe.atoms)
    other = MDAnalysis.Universe("run.xyz", f"run.{kind}")
    show(kind, other.trajectory, other.atoms)
P
v/bin/python program.py 2>/dev/null | tee out
diff - out <<'P'
in memory: ts.positions [0.0, 1.0, 2.0], atoms.positions [0.0, 1.0, 2.0]
xyz: ts.positions [0.0, 0.0, 0.0], atoms.positions [0.0, 1.0, 2.0]
dcd: ts.positions [0.0, 1.0, 2.0], atoms.positions [0.0, 1.0, 2.0]
xtc: ts.positions [0.0, 0.0, 0.0], atoms.positions [0.0, 1.0, 2.0]
trr: ts.positions [0.0, 0.0, 0.0], atoms.positions [0.0, 1.0, 2.0]
ncdf: ts.positions [0.0, 0.0, 0.0], atoms.positions [0.0, 1.0, 2.0]
P
echo "as observed: kept positions of MDAnalysis are all the first frame, but not for DCD"
