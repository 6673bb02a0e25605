#!/usr/bin/env bash
# What: `$$` in pre_rocket, post_rocket or rocket_launch of FireWorks' my_qadapter.yaml; PyPI FireWorks 2.1.4.
# Guess: the number of the shell, in the script for the queue as in any other.
# Happens: each line with `$$` is left out, because the template's own marks are $${...} and lines with marks that are left
#   are removed. The other lines stay, and the job runs without that line. No word. `$TMPDIR` and `${TMPDIR}` are kept.
# Who meets it: `export TMPDIR=/scratch/run.$$` before a program that writes there, or a file with $$ in its name. The program
#   runs with the TMPDIR of the login, and all jobs share one folder.
# Instead: $SLURM_JOB_ID, or mktemp -d.
# shellcheck disable=SC2016
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install FireWorks==2.1.4
cat >my_qadapter.yaml <<'P'
_fw_name: CommonAdapter
_fw_q_type: SLURM
rocket_launch: rlaunch singleshot
nodes: 1
pre_rocket: |
  module load solver
  export TMPDIR=/scratch/run.$$
  mkdir -p ${TMPDIR}
post_rocket: rm -rf $TMPDIR
P
cat >program.py <<'P'
import sys
from fireworks.utilities.fw_serializers import load_object_from_file
print(load_object_from_file(sys.argv[1]).get_script_str("."))
P
show() { echo "$1:"; v/bin/python -W error::UserWarning program.py my_qadapter.yaml 2>&1 | grep -v '^#' | grep -E 'TMPDIR|module|rlaunch'; }
{
    show 'with $$'
    sed -i 's/\$\$/$SLURM_JOB_ID/' my_qadapter.yaml
    show 'with $SLURM_JOB_ID'
} | tee out
diff - out <<'P'
with $$:
module load solver
mkdir -p ${TMPDIR}
rlaunch singleshot
rm -rf $TMPDIR
with $SLURM_JOB_ID:
module load solver
export TMPDIR=/scratch/run.$SLURM_JOB_ID
mkdir -p ${TMPDIR}
rlaunch singleshot
rm -rf $TMPDIR
P
echo "as observed: FireWorks leaves out each line with two dollars"
