#!/usr/bin/env bash
# What: --benchmark-compare-fail of pytest-benchmark; PyPI pytest-benchmark 5.3.1 with pytest 9.2.0.
# Guess: where a benchmark has no counterpart in the saved run, there is an error or at least a warning: without any saved
#   run the option is refused ('requires valid --benchmark-compare').
# Happens: nothing is compared, the tests pass and the status is 0, for a function that was renamed or got another
#   parameter, also where none is left to compare. The heading 'Comparing against benchmarks from' is printed as ever.
# Who meets it: a nightly run that guards a solver's speed: solve[200] instead of solve[100] is a hundred times slower.
# Instead: count the names in both files of --benchmark-save, or look for (0001_...) and (NOW) lines in the table.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install --no-compile pytest==9.2.0 pytest-benchmark==5.3.1
tests() { # name, parameter, seconds
    cat >test_speed.py <<P
import time, pytest
@pytest.mark.parametrize("n", [$2])
def test_$1(benchmark, n): benchmark.pedantic(time.sleep, args=($3,), rounds=3)
P
}
run() { v/bin/python -m pytest -q "$@" test_speed.py >words 2>&1; }
compare() {
    local status=0
    run --benchmark-compare --benchmark-compare-fail=mean:200% || status=$?
    echo "$*: status $status, $(grep -c 'Comparing against' words || true) heading, $(grep -ciE 'warning|not found' words || true) warnings"
}
status=0; tests solve 100 0.002; run --benchmark-compare --benchmark-compare-fail=mean:200% || status=$?
echo "no saved run: status $status" | tee out
run --benchmark-autosave
for case in "solve 100 0.002" "solve 100 0.2" "solve 200 0.2" "solve2 100 0.2"; do
    # shellcheck disable=SC2086
    tests $case; compare "$case"
done | tee -a out
diff - out <<'P'
no saved run: status 4
solve 100 0.002: status 0, 1 heading, 0 warnings
solve 100 0.2: status 1, 1 heading, 1 warnings
solve 200 0.2: status 0, 1 heading, 0 warnings
solve2 100 0.2: status 0, 1 heading, 0 warnings
P
echo "as observed: a benchmark without a counterpart is not compared, and passes"
