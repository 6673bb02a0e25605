#!/usr/bin/env bash
# What: PFFT.forward(u) and backward(u) of mpi4py-fft without a second argument; Debian python3-mpi4py-fft 2.0.4-1+b4.
# Guess: each call gives an array of its own, as numpy.fft does: forward(a) * forward(b) is the product of the two.
# Happens: all calls give one array, the plan's, which the next call writes over: the product is forward(b) squared, and
#   a result that was kept is the last one. The text of the method says that 'predefined arrays' are used, not that they
#   are the ones it returns. With one rank it is so as well, and nothing is said.
# Who meets it: convolutions, spectra of two fields, and a spectrum that is kept as the one of the step before.
# Instead: forward(a, newDistArray(fft)), or forward(a).copy().
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install python3-mpi4py-fft=2.0.4-1+b4 openmpi-bin |
    awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack PYTHONPATH=$T/usr/lib/python3/dist-packages
export PATH=$T/usr/bin:$PATH OPENBLAS_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_io=romio321
[ ! -d "$libraries/openmpi" ] || export OPAL_PREFIX=$T/usr
cat >program.py <<'P'
import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray
world = MPI.COMM_WORLD
fft = PFFT(world, (8, 8), dtype="d")
def field(values):
    u = newDistArray(fft, False)
    u[...] = values[u.local_slice()]
    return u
rows = numpy.arange(64.0).reshape(8, 8)
a, b = field(rows), field(rows % 3)
right = fft.forward(a, newDistArray(fft)) * fft.forward(b, newDistArray(fft))
squared = fft.forward(b, newDistArray(fft)) ** 2
product = fft.forward(a) * fft.forward(b)
kept = fft.forward(a)
before = kept.copy()
fft.forward(b)
same = lambda x, y: world.allreduce(bool(numpy.allclose(x, y)), MPI.LAND)
answers = {"product right": same(product, right), "product is b squared": same(product, squared),
           "kept result unchanged": same(kept, before), "with copy() right": None}
answers["with copy() right"] = same(fft.forward(a).copy() * fft.forward(b), right)
if world.rank == 0:
    print(f"ranks {world.size}:", ", ".join(f"{text} {answer}" for text, answer in answers.items()), flush=True)
P
for ranks in 1 2; do
    timeout -k 5 60 mpirun.openmpi --oversubscribe -n $ranks /usr/bin/python3 program.py 2>&1
done | tee out
diff - out <<'P'
ranks 1: product right False, product is b squared True, kept result unchanged False, with copy() right True
ranks 2: product right False, product is b squared True, kept result unchanged False, with copy() right True
P
echo "as observed: all results of one plan are one array"
