#!/usr/bin/env bash
# What: the status of xjobs, and of `nq -w` and `nq -t`; Debian xjobs 20120412-1+b1, nq 0.3.1-4, task-spooler 1.0.1+dfsg1-1.
# Guess: not 0 where a job failed, as xargs (123) and `tsp -w` (the job's) have it; nq's manual has '>0 if an error occurs'.
# Happens: xjobs exits with 0 where jobs failed or were killed, and says so only in its lines, which -v0 removes. `nq -w ID`
#   and `nq -t ID` are 0, too, also for a job ID that there never was; and a job in nq's queue runs after one that failed.
# Who meets it: `xjobs -v0 ... && rm input/*`, or the example of nq's manual, `nq make depends; nq make all`.
# Instead: xargs -P or GNU parallel; for nq one job with && in `sh -c`, and its last line, [exited with status 3.].
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q xjobs=20120412-1+b1 nq=0.3.1-4 task-spooler=1.0.1+dfsg1-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export HOME=$T NQDIR=$T/queue TMPDIR=$T TS_SOCKET=$T/socket PATH=$T/usr/bin:$PATH
mkdir queue
run() { local name=$1 status=0; shift; "$@" >words 2>&1 || status=$?; echo "$name: status $status"; }
list() { printf '%s\n' 0 3 0 | "$@"; }
{
    run "xargs" list xargs -n1 sh -c 'exit $0'
    run "xjobs" list xjobs -v0 -j1 -- sh -c 'exit $0'
    run "xjobs, killed" list xjobs -v0 -j1 -- sh -c 'kill -9 $$'
    job=$(tsp sh -c 'exit 3')
    run "tsp -w" tsp -w "$job"
    tsp -K
    job=$(nq sh -c 'sleep 1; exit 3'); next=$(nq echo next)
    run "nq -w" nq -w "$job"
    run "nq -t" nq -t "$job"
    tail -n 1 "queue/$job"
    nq -w "$next"; grep -x next "queue/$next"
    run "nq -w of no job" nq -w ,1234.5
} | tee out
diff - out <<'E'
xargs: status 123
xjobs: status 0
xjobs, killed: status 0
tsp -w: status 3
nq -w: status 0
nq -t: status 0
[exited with status 3.]
next
nq -w of no job: status 0
E
echo "as observed: xjobs and nq -w exit with 0 where jobs failed"
