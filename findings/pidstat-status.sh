#!/usr/bin/env bash
# What: the exit status of `pidstat -e PROGRAM`, which starts a program and measures it; Debian sysstat 12.6.1-1.
# Guess: that of the program, as with time, taskset, numactl and perf stat.
# Happens: 0 in all cases: the program fails, or is killed. With a number of reports, pidstat ends after the last
#   one, though the program still runs.
# Who meets it: `pidstat -ur 10 -e ./simulation && ./evaluate` in a job: what failed is evaluated, and the job has succeeded;
#   `pidstat -ur 10 5 -e ./simulation`: the next line of the job starts beside it.
# Instead: `./simulation & pidstat -ur -p $! 10 >figures &`, then `wait %1`, which has the status, and `kill %2`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q sysstat=12.6.1-1 libsensors5 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu PATH=$T/usr/bin:$PATH
echo 'sleep 1.2; exit 3' >failed
echo 'sleep 1.2; kill -9 $$' >killed
echo 'sleep 3; echo the program ends' >long
run() { # command
    status=0; "$@" >/dev/null 2>&1 || status=$?
    echo "$*: status $status"
}
{
    run taskset -c 0 sh failed
    run pidstat 1 -e sh failed
    run taskset -c 0 sh killed
    run pidstat 1 -e sh killed
    status=0; pidstat 1 1 -e sh long >>end 2>&1 || status=$?
    if grep -q 'the program ends' end; then echo ended; else echo "pidstat 1 1 -e sh long: status $status, while the program runs"; fi
    for _ in $(seq 50); do ! grep -q 'the program ends' end || break; sleep 0.1; done
    grep 'the program ends' end
} | tee out
diff - out <<'P'
taskset -c 0 sh failed: status 3
pidstat 1 -e sh failed: status 0
taskset -c 0 sh killed: status 137
pidstat 1 -e sh killed: status 0
pidstat 1 1 -e sh long: status 0, while the program runs
the program ends
P
echo "as observed: pidstat -e exits with 0 whatever the program does"
