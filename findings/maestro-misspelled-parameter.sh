#!/usr/bin/env bash
# What: `$(NAME)` in a step of Maestro, where no parameter or variable has that name; PyPI maestrowf 1.2.1.
# Guess: `maestro run` refuses the study, as it does for a step that depends on a step which is not there.
# Happens: it stays in the script, and the shell takes it for a command: 'command not found' in the step's file of errors, and
#   nothing in place of the value. The step is FINISHED, also with `set -e`, and the status is 0. Where there is a command of
#   that name, as for $(size) or $(time), it is run.
# Who meets it: SIZE in the parameters and $(SIZES) in the step: the solver takes its default, or the next word, in all runs of
#   the study.
# Instead: `maestro run --dry`, and a look for `$(` in the scripts.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install maestrowf==1.2.1
study() { # name in the step, what the second step depends on
    rm -rf study; cat >study.yaml <<P
description: {name: study, description: a test}
study:
    - name: first
      description: one step
      run: {cmd: "set -eu; echo cells=\$($1) steps=100"}
    - name: second
      description: one step
      run: {cmd: "true", depends: [$2]}
global.parameters:
    SIZE: {values: [8], label: SIZE.%%}
P
    status=0; v/bin/maestro run -y -fg -s 1 -o study study.yaml >words 2>&1 || status=$?
    echo "$1, $2: status $status, $(find study/first -name '*.out' -exec cat {} + 2>/dev/null || echo 'did not run')"
}
{ study SIZE first; study SIZES first; study SIZE frist; } | tee out
diff - out <<'P'
SIZE, first: status 0, cells=8 steps=100
SIZES, first: status 0, cells= steps=100
SIZE, frist: status 1, did not run
P
echo "as observed: Maestro leaves a name that it does not know to the shell, and the step is a success"
