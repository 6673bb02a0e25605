#!/usr/bin/env bash
# What: `reference` of a ReFrame test for a figure or a system whose name does not match; PyPI reframe-hpc 4.10.4.
# Guess: a reference for a performance variable that the test does not have is an error, or a warning, as a wrong unit
#   or -S with an unknown variable is.
# Happens: the figure is printed and not compared: the test is OK, at a tenth of the reference. Nothing is said, but
#   that the figure's line lacks its (r:..., l:..., u:...). Likewise where only another system has a reference.
# Who meets it: tests whose performance function was renamed, or a site that renamed its system or partition: the
#   nightly run watches a bandwidth that may fall to any value.
# Instead: "*" as the system of a reference, and a look for lines that begin with P: and have no (r:.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T TMPDIR=$T NO_COLOR=1
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install reframe-hpc==4.10.4
cat >checks.py <<'P'
import reframe as rfm
import reframe.utility.sanity as sn

class Stream(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["builtin"]
    executable = "echo"
    executable_opts = ["triad 10 GB/s"]

    @sanity_function
    def validate(self):
        return sn.assert_found("triad", self.stdout)

    @performance_function("GB/s")
    def triad(self):
        return sn.extractsingle(r"triad (\d+)", self.stdout, 1, float)

@rfm.simple_test
class Right(Stream):
    reference = {"*": {"triad": (100, -0.1, None, "GB/s")}}

@rfm.simple_test
class OtherFigure(Stream):
    reference = {"*": {"triad_bw": (100, -0.1, None, "GB/s")}}

@rfm.simple_test
class OtherSystem(Stream):
    reference = {"lab:pcs": {"triad": (100, -0.1, None, "GB/s")}}

@rfm.simple_test
class OtherUnit(Stream):
    reference = {"*": {"triad": (10, -0.1, None, "MB/s")}}
P
for name in Right OtherFigure OtherSystem OtherUnit; do
    v/bin/reframe -c checks.py -n "^$name\$" -r >words 2>&1 || true
    sed -i 's/\x1b\[[0-9;]*m//g' words
    result=$(grep -oE '^\[ +(OK|FAIL) \]' words | tr -d '[] ')
    echo "$name: $result, $(grep -E '^P: ' words), $(grep -c WARNING words || true) warnings"
done | tee out
diff - out <<'P'
Right: FAIL, P: triad: 10.0 GB/s (r:100, l:-0.1, u:None), 0 warnings
OtherFigure: OK, P: triad: 10.0 GB/s, 0 warnings
OtherSystem: OK, P: triad: 10.0 GB/s, 0 warnings
OtherUnit: OK, P: triad: 10.0 GB/s (r:10, l:-0.1, u:None), 1 warnings
P
echo "as observed: a reference that matches nothing is no reference"
