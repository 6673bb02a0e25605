#!/usr/bin/env bash
# What: meshio's write("x.msh") and `meshio convert a.msh b.msh`; PyPI meshio 5.3.5, numpy 2.4.6.
# Guess: a file of Gmsh, whose ending .msh is, and from which the mesh was read: with physical groups, partitions and data.
# Happens: ANSYS's format has that ending, too, and is the one that is written. Gmsh cannot read it; physical groups, point
#   data and cell data are left out without a warning. meshio itself reads the file again, so that nothing is noticed.
#   A mesh with a cell that ANSYS has not, tetra10 for example, is an error.
# Who meets it: scripts that scale, clean or renumber a mesh of Gmsh and write it back, as `meshio convert in.msh out.msh`:
#   the solver finds no boundary groups.
# Instead: meshio.write(name, mesh, file_format="gmsh"), or `meshio convert -o gmsh`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install meshio==5.3.5 numpy==2.4.6 rich==15.0.0
cat >program.py <<'E'
import meshio, subprocess
mesh = meshio.Mesh([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [("triangle", [[0, 1, 2], [0, 2, 3]])],
                   point_data={"T": [1.0, 2, 3, 4]}, cell_data={"gmsh:physical": [[7, 8]], "gmsh:geometrical": [[1, 2]]})
def show(name):
    m = meshio.read(name)
    start = open(name, "rb").readline().decode().strip()
    print(f"{name}: {start}, {len(m.cells[0])} triangles, data {sorted(m.point_data) + sorted(m.cell_data)}")
meshio.write("a.msh", mesh, file_format="gmsh22"); show("a.msh")
meshio.write("b.msh", mesh); show("b.msh")
convert = ["v/bin/meshio", "convert", "a.msh"]
subprocess.run([*convert, "c.msh"], check=True); show("c.msh")
subprocess.run([*convert, "d.msh", "-o", "gmsh22"], check=True); show("d.msh")
E
v/bin/python program.py 2>&1 | tee out
diff - out <<'E'

a.msh: $MeshFormat, 2 triangles, data ['T', 'gmsh:geometrical', 'gmsh:physical']
b.msh: (1 "meshio 5.3.5"), 2 triangles, data []

c.msh: (1 "meshio 5.3.5"), 2 triangles, data []


d.msh: $MeshFormat, 2 triangles, data ['T', 'gmsh:geometrical', 'gmsh:physical']
E
echo "as observed: meshio writes ANSYS's format for .msh"
