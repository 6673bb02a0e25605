#!/usr/bin/env bash
# What: a study of Maestro whose parameters have a value several times, as for repetitions; PyPI maestrowf 1.2.1.
# Guess: as many runs as there are values, or an error because two of them have one name.
# Happens: runs with one label are one run, the first: 8 three times is run once, and a parameter without `%%` in
#   its label loses its other values. 'is complete', and status 0.
# Who meets it: measurements that are repeated, random seeds whose label is not numbered, and labels that round or shorten.
# Instead: a parameter that counts, `REPEAT: {values: [1, 2, 3], label: REPEAT.%%}`; and the number of folders compared.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install maestrowf==1.2.1
study() { # name, values and label of SIZE, values and label of SEED
    cat >study.yaml <<P
description: {name: study, description: a test}
study:
    - name: run
      description: one step
      run: {cmd: "echo \$(SIZE) \$(SEED)"}
global.parameters:
    SIZE: {values: $2, label: $3}
    SEED: {values: $4, label: $5}
P
    status=0; v/bin/maestro run -y -fg -s 1 -o "$1" study.yaml >words 2>&1 || status=$?
    echo "$1: status $status, $(grep -o 'is complete.*' words) ran:$(find "$1" -name '*.out' -exec cat {} + | sort | sed 's/^/ /' | paste -sd,)"
}
{
    study 'other sizes' '[2, 4, 8]' 'SIZE.%%' '[1, 2, 3]' 'SEED.%%'
    study 'one size' '[8, 8, 8]' 'SIZE.%%' '[1, 2, 3]' 'SEED.%%'
    study 'no number in the label' '[8, 8, 8]' 'SIZE.%%' '[1, 2, 3]' 'SEED'
    study 'repetitions' '[8, 8, 8]' 'SIZE.%%' '[0, 0, 0]' 'SEED.%%'
} | tee out
diff - out <<'P'
other sizes: status 0, is complete. Returning. ran: 2 1, 4 2, 8 3
one size: status 0, is complete. Returning. ran: 8 1, 8 2, 8 3
no number in the label: status 0, is complete. Returning. ran: 8 1
repetitions: status 0, is complete. Returning. ran: 8 0
P
echo "as observed: of several runs with one label Maestro makes the first one"
