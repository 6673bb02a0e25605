#!/usr/bin/env bash
# What: one molecular dynamics on each rank, with ASE and mpi4py; PyPI ase 3.29.0, mpi4py 4.1.2, mpich 5.0.2.
# Guess: with a seed of its own (rng=RandomState(rank)) each rank has velocities and noise of its own: independent
#   replicas of the system.
# Happens: once a program has imported mpi4py, ASE takes its ranks for one calculation: thermalize_momenta and Langevin
#   broadcast the random numbers of rank 0, so all replicas are the same, to the last digit, and their mean has no
#   smaller error. No word is said. The text of Langevin's rng does not speak of it. read() and write() go through rank
#   0 as well: all ranks get the file that rank 0 named, and the other ranks' trajectories are not written.
# Who meets it: task farms over mpi4py that sample replicas or seeds; with srun or xargs, without mpi4py, they worked.
# Instead: comm=ase.parallel.DummyMPI() for velocities and Langevin, and parallel=False for read and write.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore OPENBLAS_NUM_THREADS=1
export FI_PROVIDER=tcp FI_TCP_IFACE=lo
python3 -m venv --without-pip "$T/env"
python3 -m pip -q --python "$T/env/bin/python" install ase==3.29.0 mpi4py==4.1.2 mpich==5.0.2
cd "$T"
cat >program.py <<'E'
import os, sys
import numpy
how = sys.argv[1]
if how != "without mpi4py": from mpi4py import MPI
from ase import Atoms, parallel, units
from ase.calculators.emt import EMT
from ase.md.langevin import Langevin
from ase.md.velocitydistribution import thermalize_momenta
rank = int(os.environ["PMI_RANK"])
rng = numpy.random.RandomState(rank)
atoms = Atoms("Cu4", positions=[[0, 0, 0], [2.5, 0, 0], [0, 2.5, 0], [0, 0, 2.5]], calculator=EMT())
options = {"comm": parallel.DummyMPI()} if how == "alone" else {}
thermalize_momenta(atoms, 300, rng=rng, **options)
velocity = atoms.get_velocities()[0, 0]
Langevin(atoms, 2 * units.fs, temperature_K=300, friction=0.01, rng=rng, fixcm=False, **options).run(20)
with open(f"{rank}.out", "w") as out: out.write(f"{velocity:.12f} {atoms.positions[0, 0]:.12f}\n")
E
{
    for how in "without mpi4py" "with mpi4py" alone; do
        env PATH="$T/env/bin:$PATH" LD_LIBRARY_PATH="$T/env/lib" timeout -k 5 90 \
            env/bin/mpiexec -n 3 env/bin/python program.py "$how" 2>errors || true
        echo "$how: $(cut -d" " -f1 ./[0-2].out | sort -u | wc -l) start velocities," \
            "$(cut -d' ' -f2 ./[0-2].out | sort -u | wc -l) ends of 3 ranks"
        rm ./[0-2].out
    done
} | tee out
diff - out <<'P'
without mpi4py: 3 start velocities, 3 ends of 3 ranks
with mpi4py: 1 start velocities, 1 ends of 3 ranks
alone: 3 start velocities, 3 ends of 3 ranks
P
echo "as observed: replicas on the ranks of mpi4py have the random numbers of rank 0"
