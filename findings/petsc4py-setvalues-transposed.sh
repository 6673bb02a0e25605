#!/usr/bin/env bash
# What: Mat.setValues(rows, columns, block) of petsc4py with a block that is not in C's order; Debian
#   python3-petsc4py-real3.18 3.18.5-1.
# Guess: block[i, j] is added at (rows[i], columns[j]), for each NumPy array. createDense(array=...) takes any order.
# Happens: setValues, setValuesBlocked and A[rows, columns] = block read a transposed or Fortran-ordered block in the
#   order of its memory: with B.T the values are shuffled. A slice such as B[:, ::2] is right, a block of another
#   shape with as many values is taken too, and nothing is said.
# Who meets it: who assembles B and B.T of a saddle point (Stokes, contact), or element matrices of f2py: the matrix
#   is not symmetric, while each dimension fits, and the solver gives an answer.
# Instead: numpy.ascontiguousarray(B.T).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install python3-petsc4py-real3.18=3.18.5-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d "$T/usr/lib/petscdir" ] || root=$T
export PYTHONPATH=$root/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real/lib/python3/dist-packages
PYTHONPATH+=:$root/usr/lib/python3/dist-packages
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_MCA_btl=self OMPI_MCA_pml=ob1
cat >program.py <<'P'
import numpy, petsc4py
petsc4py.init()
from petsc4py import PETSc
print("PETSc", ".".join(map(str, PETSc.Sys.getVersion())))
B = numpy.arange(1.0, 7).reshape(2, 3)
def saddle(transposed):
    A = PETSc.Mat().createAIJ((5, 5), nnz=5)
    A.setUp()
    A.setValues([3, 4], [0, 1, 2], B)
    A.setValues([0, 1, 2], [3, 4], transposed)
    A.assemble()
    return A
for name, block in {"B.T": B.T, "B": B, "ascontiguousarray(B.T)": numpy.ascontiguousarray(B.T)}.items():
    A = saddle(block)
    print(f"{name}: {A[0:3, 3:5].astype(int).tolist()}, symmetric {A.isSymmetric()}")
A = PETSc.Mat().createAIJ((5, 5), nnz=5)
A.setUp(); A[[0, 1, 2], [3, 4]] = B.T; A.assemble()
print(f"A[rows, columns] = B.T: {A[0:3, 3:5].astype(int).tolist()}")
P
/usr/bin/python3 program.py | tee out
diff - out <<'P'
PETSc 3.18.5
B.T: [[1, 2], [3, 4], [5, 6]], symmetric False
B: [[1, 2], [3, 4], [5, 6]], symmetric False
ascontiguousarray(B.T): [[1, 4], [2, 5], [3, 6]], symmetric True
A[rows, columns] = B.T: [[1, 2], [3, 4], [5, 6]]
P
echo "as observed: setValues takes a transposed block in the order of its memory"
