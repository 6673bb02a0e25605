#!/usr/bin/env bash
# What: EPS.solve() again after the matrix has changed in place; Debian python3-slepc4py-real3.18 3.18.2-1 (SLEPc 3.18).
# Guess: the eigenvalues of the matrix as it is now. KSP.solve() takes a matrix that has changed, and builds its
#   preconditioner anew.
# Happens: nothing is computed: an EPS that has solved returns at once, and getEigenvalue gives the old values, with
#   getConverged() as before. SVD does the same.
#   A change between setOperators and the first solve() is an error: 'have been modified'.
# Who meets it: parameter studies and self-consistent loops that change A's entries and call solve() in a loop: the first
#   step's values come again, which looks like convergence.
# Instead: eps.setOperators(A) before each solve(); setInitialSpace with the last vectors keeps it fast.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install python3-slepc4py-real3.18=3.18.2-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d "$T/usr/lib/slepcdir" ] || root=$T
parts=x86_64-linux-gnu-real/lib/python3/dist-packages
export PYTHONPATH=$root/usr/lib/slepcdir/slepc3.18/$parts:$root/usr/lib/petscdir/petsc3.18/$parts
PYTHONPATH+=:$root/usr/lib/python3/dist-packages
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack OPENBLAS_NUM_THREADS=1
[ ! -d "$T/usr/lib/x86_64-linux-gnu/openmpi" ] || export OPAL_PREFIX=$T/usr
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=$T TMPDIR=$T
export OMPI_MCA_btl=self OMPI_MCA_pml=ob1 OMPI_MCA_ess_singleton_isolated=1      # no orted
cat >program.py <<'E'
import slepc4py
slepc4py.init()
from petsc4py import PETSc
from slepc4py import SLEPc
print("SLEPc", ".".join(map(str, SLEPc.Sys.getVersion())))
A = PETSc.Mat().createAIJ((5, 5), nnz=1)
def scale(factor):
    for i in range(5): A[i, i] = factor * (i + 1)
    A.assemble()
scale(1)
eps = SLEPc.EPS().create(); eps.setOperators(A); eps.setProblemType(SLEPc.EPS.ProblemType.HEP)
svd = SLEPc.SVD().create(); svd.setOperator(A)
ksp = PETSc.KSP().create(); ksp.setOperators(A); ksp.setType("preonly"); ksp.getPC().setType("lu")
x, b = A.createVecs(); b.set(1)
for factor, again in (1, False), (2, False), (4, False), (4, True):
    if factor > 1: scale(factor)
    if again: eps.setOperators(A); svd.setOperator(A)
    eps.solve(); svd.solve(); ksp.solve(b, x)
    print(f"A times {factor}{', setOperators' if again else ''}: eigenvalue {eps.getEigenvalue(0).real:.2f},",
          f"converged {eps.getConverged()}, singular value {svd.getValue(0):.2f};",
          f"KSP: 1/x = {1 / x[4]:.2f}")
E
python3 program.py | tee out
diff - out <<'E'
SLEPc 3.18.2
A times 1: eigenvalue 5.00, converged 5, singular value 5.00; KSP: 1/x = 5.00
A times 2: eigenvalue 5.00, converged 5, singular value 5.00; KSP: 1/x = 10.00
A times 4: eigenvalue 5.00, converged 5, singular value 5.00; KSP: 1/x = 20.00
A times 4, setOperators: eigenvalue 20.00, converged 5, singular value 20.00; KSP: 1/x = 20.00
E
echo "as observed: EPS.solve() computes nothing after A has changed in place"
