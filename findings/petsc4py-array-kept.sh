#!/usr/bin/env bash
# What: norm() of a petsc4py vector whose `array` the program has kept; Debian python3-petsc4py-real3.18 3.18.5-1.
# Guess: `a = v.array` is a view, so that a[:] = ... changes v, and v.norm() is the norm of what is in v.
# Happens: v changes, and sum, dot and max are right, but norm() is the one from before: PETSc keeps norms until it is
#   told of a change, which is when `v.array` is called, not when `a` is written. copy() takes the old norm along,
#   normalize() then gives a vector of length 10, and GMRES, which starts from such a norm, does not converge.
# Who meets it: time loops that take the array once, before the loop, as NumPy's users do: a residual that has
#   converged at the first step for ever.
# Instead: `v.array[:] = ...` each time, `with v as a:`, or v.stateIncrease() after the writes.
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
A = PETSc.Mat().createAIJ((3, 3), nnz=3)
A.setUp(); A[:, :] = numpy.array([[4.0, 1, 0], [1, 4, 1], [0, 1, 4]]); A.assemble()
def report(text, v):
    w = v.copy(); w.normalize()
    ksp = PETSc.KSP().create(); ksp.setOperators(A); ksp.setType("gmres"); ksp.getPC().setType("none")
    x = v.duplicate(); ksp.solve(v, x)
    print(f"{text}: norm {v.norm():.2f}, sqrt of dot {v.dot(v) ** 0.5:.2f},",
          f"normalized {numpy.linalg.norm(w.array):.2f}, GMRES converged {ksp.getConvergedReason() > 0}")
v = PETSc.Vec().createSeq(3)
a = v.array
a[:] = [1, 2, 3]
report("first", v)
a[:] = [10, 20, 30]
report("kept array", v)
v.stateIncrease()
report("with stateIncrease", v)
v.array[:] = [100, 200, 300]
report("v.array", v)
with v as b: b[:] = [1, 2, 3]
report("with v as b", v)
P
/usr/bin/python3 program.py | tee out
diff - out <<'P'
PETSc 3.18.5
first: norm 3.74, sqrt of dot 3.74, normalized 1.00, GMRES converged True
kept array: norm 3.74, sqrt of dot 37.42, normalized 10.00, GMRES converged False
with stateIncrease: norm 37.42, sqrt of dot 37.42, normalized 1.00, GMRES converged True
v.array: norm 374.17, sqrt of dot 374.17, normalized 1.00, GMRES converged True
with v as b: norm 3.74, sqrt of dot 3.74, normalized 1.00, GMRES converged True
P
echo "as observed: norm() is the one from before where the array was kept"
