#!/usr/bin/env bash
# What: VecNorm of a PETSc vector around an array of the caller; Debian libpetsc-real3.18 3.18.5, python3-petsc4py.
# Guess: each norm of (1, 2, 3) is its norm, whatever was asked for before.
# Happens: the first type of norm is right, each other type is 0: norm() and then norm(INFINITY) are 3.74 and 0. PETSc
#   keeps the norms of a vector with a count of its changes, and both are 0 in one that nobody has written yet.
#   KSP uses them too: after b.norm(INFINITY) the solver takes b for zero, and 'converges' at x = 0 in 0 iterations.
# Who meets it: who wraps an array of NumPy, or of a program's own fields, and prints two norms of a right-hand side.
# Instead: b.stateIncrease() after createWithArray (PetscObjectStateIncrease in C), or fill a vector of PETSc's own.
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
Norm = PETSc.NormType
def vector(hint=False):
    b = PETSc.Vec().createWithArray(numpy.array([1.0, 2.0, 3.0]))
    if hint: b.stateIncrease()
    return b
names = {"1": Norm.NORM_1, "2": Norm.NORM_2, "infinity": Norm.INFINITY}
for first in names:
    b = vector()
    print(f"norm {first}: {b.norm(names[first]):.2f}, then",
          ", ".join(f"{other}: {b.norm(names[other]):.2f}" for other in names if other != first))
A = PETSc.Mat().createAIJ((3, 3), nnz=3)
A.setUp(); A[:, :] = numpy.array([[4.0, 1, 0], [1, 4, 1], [0, 1, 4]]); A.assemble()
for text, hint, asked in ("", False, False), (" after norm(INFINITY)", False, True), (" with hint", True, True):
    b = vector(hint)
    if asked: b.norm(Norm.INFINITY)
    x = A.createVecRight(); x.set(0.0)
    ksp = PETSc.KSP().create(); ksp.setOperators(A); ksp.setType("gmres"); ksp.getPC().setType("none")
    ksp.solve(b, x)
    print(f"solve{text}: converged {ksp.getConvergedReason() > 0}, {ksp.getIterationNumber()} iterations,",
          "x =", " ".join(f"{value:.3f}" for value in x.array))
P
/usr/bin/python3 program.py | tee out
diff - out <<'P'
PETSc 3.18.5
norm 1: 6.00, then 2: 0.00, infinity: 0.00
norm 2: 3.74, then 1: 0.00, infinity: 0.00
norm infinity: 3.00, then 1: 0.00, 2: 0.00
solve: converged True, 3 iterations, x = 0.179 0.286 0.679
solve after norm(INFINITY): converged True, 0 iterations, x = 0.000 0.000 0.000
solve with hint: converged True, 3 iterations, x = 0.179 0.286 0.679
P
echo "as observed: the second norm of a wrapped array is 0, and a solver takes it for zero"
