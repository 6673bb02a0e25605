#!/usr/bin/env bash
# What: a tag that phonopy does not know in its configuration file, or a value TRUE without points; PyPI phonopy 4.10.0.
# Guess: an error or a warning, as for a misspelled option of the command (status 2) or a number with a comma (status 1).
# Happens: the tag is dropped, the default is used, the status is 0, and the output does not name it: displacements of 0.01 for
#   DISPLACEMENT_DISTANC = 0.05. `PM = TRUE` is dropped as well; .TRUE. is what it takes: two displacements instead of four.
# Who meets it: a study whose supercells are then computed for days on the cluster, with other displacements.
# Instead: `grep -A1 displacement: phonopy_disp.yaml`, or the options of the command: --amplitude, --pm.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile phonopy==4.10.0 spglib==2.8.0 numpy==2.4.6 2>/dev/null
cat >POSCAR <<'E'
NaCl
1.0
5.69 0 0
0 5.69 0
0 0 5.69
Na Cl
4 4
Direct
0 0 0
0 .5 .5
.5 0 .5
.5 .5 0
.5 .5 .5
.5 0 0
0 .5 0
0 0 .5
E
make_displacements() { # line of the configuration file, or options
    rm -f POSCAR-* phonopy_disp.yaml
    printf 'DIM = 1 1 1\nCREATE_DISPLACEMENTS = .TRUE.\n%s\n' "$1" >phonopy.conf
    status=0
    # shellcheck disable=SC2086
    v/bin/phonopy-init phonopy.conf ${2:-} >words 2>&1 || status=$?
    distance=; number=0
    if [ -f phonopy_disp.yaml ]; then
        distance=$(awk '/displacement:/ {getline; print $2 + 0; exit}' phonopy_disp.yaml)
        number=$(find . -name 'POSCAR-*' | wc -l)
    fi
    named=; [ -z "$1" ] || named=", named in $(grep -c "${1%% *}" words || true) lines of output"
    echo "$1${2:-}: status $status, $number supercells, distance ${distance:-none}$named"
}
{
    make_displacements 'DISPLACEMENT_DISTANCE = 0.05'
    make_displacements 'DISPLACEMENT_DISTANC = 0.05'
    make_displacements 'DISPLACEMENT_DISTANCE = 0,05'
    make_displacements 'PM = .TRUE.'
    make_displacements 'PM = TRUE'
    make_displacements '' '--amplitude=0.05'
    make_displacements '' '--amplitud_=0.05'
} | tee out
diff - out <<'E'
DISPLACEMENT_DISTANCE = 0.05: status 0, 2 supercells, distance 0.05, named in 0 lines of output
DISPLACEMENT_DISTANC = 0.05: status 0, 2 supercells, distance 0.01, named in 0 lines of output
DISPLACEMENT_DISTANCE = 0,05: status 1, 0 supercells, distance none, named in 0 lines of output
PM = .TRUE.: status 0, 4 supercells, distance 0.01, named in 0 lines of output
PM = TRUE: status 0, 2 supercells, distance 0.01, named in 0 lines of output
--amplitude=0.05: status 0, 2 supercells, distance 0.05
--amplitud_=0.05: status 2, 0 supercells, distance none
E
echo "as observed: phonopy drops a tag that it does not know"
