#!/usr/bin/env bash
# What: `SingleNodeLauncher(fail_on_any=False)`, the default launcher of Parsl's providers; PyPI parsl 2026.10.26.
# Guess: its own words: with False 'a nonzero exit code if all workers failed, otherwise zero', once all have ended.
# Happens: the script that it writes has `set -e`, so it ends at the first `wait` for a worker that failed, with that
#   status: False and True are one. It does not wait for the other workers. A batch job ends with its script.
# Who meets it: blocks of several pools (tasks_per_node or nodes_per_block above 1) where one pool meets a full /tmp or
#   a lost connection: the scheduler then ends the job, together with the pools that work.
# Instead: one pool a block and more blocks, or a launcher of one's own without `set -e`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install parsl==2026.10.26
cat >program.py <<'P'
import sys
from parsl.launchers import SingleNodeLauncher
launcher = SingleNodeLauncher(debug=False, fail_on_any=sys.argv[1] == "True")
print(launcher("worker $1", tasks_per_node=3, nodes_per_block=1))
P
for value in False True; do v/bin/python program.py $value >script-$value 2>/dev/null; done
cat >functions <<'P'
worker() { # the one with a number in $bad fails at once, the others work for a second
    [[ "$bad" != *$1* ]] || exit 3
    sleep 1; echo "$1" >>ended
}
P
{
    for bad in none 3 1 123; do
        for value in False True; do
            : >ended
            result=0; bad=$bad bash -c 'source ./functions; source "./$0"' script-$value || result=$?
            at_end=$(sort ended | xargs)
            echo "fail_on_any=$value, bad: $bad: status $result, waited for ${at_end:-none}"
            sleep 1.5
        done
    done
} | tee out
diff - out <<'P'
fail_on_any=False, bad: none: status 0, waited for 1 2 3
fail_on_any=True, bad: none: status 0, waited for 1 2 3
fail_on_any=False, bad: 3: status 3, waited for 1 2
fail_on_any=True, bad: 3: status 3, waited for 1 2
fail_on_any=False, bad: 1: status 3, waited for none
fail_on_any=True, bad: 1: status 3, waited for none
fail_on_any=False, bad: 123: status 3, waited for none
fail_on_any=True, bad: 123: status 3, waited for none
P
echo "as observed: fail_on_any changes nothing, and the script does not wait for all workers"
