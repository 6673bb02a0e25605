#!/usr/bin/env bash
# What: doit that is ended by SIGTERM or SIGKILL after some tasks are done; PyPI doit 0.37.0.
# Guess: the next run goes on where it was, as make does, and as doit does after Ctrl-C and after a task that failed.
# Happens: no task that was done is up to date: each is recorded when doit itself ends, in all three backends, sqlite3
#   included. The targets are there, and all tasks run again.
# Who meets it: doit in a job that reaches its time limit, is preempted or cancelled, or that runs out of memory: a
#   second job does not go on, and a study that is longer than the limit is never done.
# Instead: `timeout -s INT` a little before the limit of the job, or Slurm's `--signal=B:INT@60` with a trap in the
#   script that hands SIGINT on.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install doit==0.37.0
cat >dodo.py <<'P'
def task_step():
    for name, action, target in ("1", "echo 1 >one", "one"), ("2", "echo 2 >two", "two"), ("3", "sleep 60", "three"):
        yield dict(name=name, actions=[action], file_dep=["input"], targets=[target])
P
touch input
for backend in dbm json sqlite3; do
    for signal in INT TERM KILL; do
        rm -f one two .doit.db*
        timeout -s $signal 4 v/bin/doit run --backend $backend >/dev/null 2>&1 || true
        echo "$backend, SIG$signal: files $(echo one* two*)," \
            "up to date: $(v/bin/doit list --all -s --backend $backend | awk '/^U/ {print $2}' | xargs)"
    done
done | tee out
diff - out <<'P'
dbm, SIGINT: files one two, up to date: step:1 step:2
dbm, SIGTERM: files one two, up to date: 
dbm, SIGKILL: files one two, up to date: 
json, SIGINT: files one two, up to date: step:1 step:2
json, SIGTERM: files one two, up to date: 
json, SIGKILL: files one two, up to date: 
sqlite3, SIGINT: files one two, up to date: step:1 step:2
sqlite3, SIGTERM: files one two, up to date: 
sqlite3, SIGKILL: files one two, up to date: 
P
echo "as observed: tasks that were done are not, after SIGTERM or SIGKILL"
