#!/usr/bin/env bash
# What: KSP's converged reason for a direct solver (preonly and lu) where the solution is NaN or infinite; PETSc 3.18.5 of
#   Debian, python3-petsc4py-real3.18 3.18.5-1.
# Guess: it is negative, DIVERGED_PCSETUP_FAILED (-11) or DIVERGED_NANORINF (-9), as with gmres; programs test reason > 0.
# Happens: it is 4, CONVERGED_ITS. With UMFPACK for a singular matrix, where the others have -11; with PETSc's own LU, UMFPACK
#   and SuperLU_DIST for a matrix with a NaN, where MUMPS and SuperLU have -11; and with all for a right-hand side with a NaN.
# Who meets it: programs that check the reason after each step, with -ksp_type preonly -pc_type lu for small runs.
# Instead: gmres instead of preonly (one step more, and it looks at the residual), or x.norm() after the solution.
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
export OMPI_MCA_btl=self OMPI_MCA_pml=ob1 TMPDIR=$T HOME=$T
cat >program.py <<'P'
import numpy as np, petsc4py
petsc4py.init()
from petsc4py import PETSc
def solve(values, right, package, method="preonly"):
    A = PETSc.Mat().createAIJ((3, 3), csr=([0, 2, 4, 5], [0, 1, 0, 1, 2], values))
    b = PETSc.Vec().createWithArray(np.array(right))
    x = b.duplicate()
    ksp = PETSc.KSP().create()
    ksp.setOperators(A); ksp.setType(method)
    pc = ksp.getPC(); pc.setType("lu"); pc.setFactorSolverType(package)
    ksp.solve(b, x)
    return f"{ksp.reason} {'finite' if np.isfinite(x.array).all() else 'not finite'}"
regular, singular, nan = [2.0, 1, 1, 2, 2], [1.0, 1, 1, 1, 2], [np.nan, 1, 1, 2, 2]
for package in "petsc", "superlu", "superlu_dist", "mumps", "umfpack":
    print(package + ":", "; ".join(f"{label} {solve(values, right, package)}" for label, values, right in (
        ("regular", regular, [1.0, 2, 3]), ("singular", singular, [1.0, 2, 3]), ("NaN in the matrix", nan, [1.0, 2, 3]),
        ("NaN on the right", regular, [np.nan, 2, 3]))))
    if package in ("petsc", "umfpack"):
        print("  with gmres:", "; ".join(f"{label} {solve(values, right, package, 'gmres')}" for label, values, right in (
            ("regular", regular, [1.0, 2, 3]), ("singular", singular, [1.0, 2, 3]), ("NaN in the matrix", nan, [1.0, 2, 3]))))
P
/usr/bin/python3 program.py | tee out
diff - out <<'E'
petsc: regular 4 finite; singular -11 not finite; NaN in the matrix 4 not finite; NaN on the right 4 not finite
  with gmres: regular 3 finite; singular -11 not finite; NaN in the matrix -9 finite
superlu: regular 4 finite; singular -11 not finite; NaN in the matrix -11 not finite; NaN on the right 4 not finite
superlu_dist: regular 4 finite; singular -11 not finite; NaN in the matrix 4 not finite; NaN on the right 4 not finite
mumps: regular 4 finite; singular -11 not finite; NaN in the matrix -11 not finite; NaN on the right 4 not finite
umfpack: regular 4 finite; singular 4 not finite; NaN in the matrix 4 not finite; NaN on the right 4 not finite
  with gmres: regular 3 finite; singular -9 finite; NaN in the matrix -9 finite
E
echo "as observed: a direct solution of NaN has converged"
