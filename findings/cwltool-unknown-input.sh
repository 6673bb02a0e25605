#!/usr/bin/env bash
# What: cwltool with a job file that names an input which the tool does not have; PyPI cwltool 3.3.20260925135507.
# Guess: an error, or a warning at least, as for `--tolerence` on the command line and for an input of a workflow's
#   step.
# Happens: it is dropped without a word, the default is taken, and the status is 0. --strict (the default) changes
#   nothing, and --validate says 'No errors detected in the inputs'.
# Who meets it: a job file with a misspelled name, or one of an older release of the tool: all runs of a study have the
#   default tolerance, or one thread, and nothing in the log tells, for it shows the command line only.
# Instead: options on the command line, as in `cwltool tool.cwl --tolerance 1e-9`; or no default, so that the missing
#   name is an error.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore TMPDIR=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install cwltool==3.3.20260925135507
cat >tool.cwl <<'P'
cwlVersion: v1.2
class: CommandLineTool
baseCommand: echo
inputs:
  tolerance: {type: double, default: 1.0, inputBinding: {prefix: --tolerance}}
stdout: result
outputs: {result: stdout}
P
run() {
    rm -f result; status=0; v/bin/cwltool --no-container "$@" >log 2>&1 || status=$?
    echo "$*: status $status," \
        "$(cat result 2>/dev/null || grep -oE 'unrecognized.*|No errors.*' log || echo "no result")," \
        "$(grep -ciE 'warn' log || true) warnings"
}
echo 'tolerance: 0.5' >right.yml; echo 'tolerence: 0.5' >wrong.yml; echo 'tolerance: "0.5"' >text.yml
{
    run tool.cwl right.yml
    run tool.cwl wrong.yml
    run --strict tool.cwl wrong.yml
    run --validate tool.cwl wrong.yml
    run tool.cwl text.yml
    run tool.cwl --tolerence 0.5
} | tee out
diff - out <<'P'
tool.cwl right.yml: status 0, --tolerance 0.5, 0 warnings
tool.cwl wrong.yml: status 0, --tolerance 1.0, 0 warnings
--strict tool.cwl wrong.yml: status 0, --tolerance 1.0, 0 warnings
--validate tool.cwl wrong.yml: status 0, No errors detected in the inputs., 0 warnings
tool.cwl text.yml: status 1, no result, 0 warnings
tool.cwl --tolerence 0.5: status 2, unrecognized arguments: --tolerence, 0 warnings
P
echo "as observed: an input that the tool does not have is dropped"
