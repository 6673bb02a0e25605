#!/usr/bin/env bash
# What: `reframe -r` whose file, name, tag or environment matches no test; PyPI reframe-hpc 4.10.4.
# Guess: an error or a status other than 0, at least for a file given by -c that is not there; a nightly run then fails.
# Happens: 'PASSED Ran 0/0 test case(s)', with status 0 and nothing on standard error, as if all had passed.
# Who meets it: nightly runs and acceptance tests of a site. A check file is moved, a test renamed, a folder not
#   mounted or an option mistyped (-t nightlies), and from then on each night passes.
# Instead: test for a count, as with `grep -E 'Ran [1-9][0-9]*/'`, or compare num_cases of the report with the last one.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T NO_COLOR=1
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install reframe-hpc==4.10.4
cat >checks.py <<'P'
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["builtin"]
    tags = {"nightly"}
    executable = "false"

    @sanity_function
    def validate(self):
        return sn.assert_eq(self.job.exitcode, 0)
P
mkdir empty
{
    for options in "-c checks.py" "-c checks.py -n Strem" "-c checks.py -t nightlies" "-c checks.py -p gnu" \
        "-c check.py" "-c empty"; do
        result=0
        # shellcheck disable=SC2086
        v/bin/reframe $options -r >words 2>errors || result=$?
        ran=$(sed 's,\x1b\[[0-9;]*m,,g' words | grep -oE '(PASSED|FAILED) .* Ran [0-9]+/[0-9]+' | tr -d '[]' | xargs)
        echo "$options: $ran, status $result"
        grep -iE 'warn|error' errors || true
    done
} | tee out
diff - out <<'P'
-c checks.py: FAILED Ran 1/1, status 1
-c checks.py -n Strem: PASSED Ran 0/0, status 0
-c checks.py -t nightlies: PASSED Ran 0/0, status 0
-c checks.py -p gnu: PASSED Ran 0/0, status 0
-c check.py: PASSED Ran 0/0, status 0
-c empty: PASSED Ran 0/0, status 0
P
echo "as observed: no test at all is PASSED"
