#!/usr/bin/env bash
# What: `mq submit "shell:COMMAND"` of MyQueue with a redirection, a pipe, quotes or a variable; PyPI myqueue 26.8.1.
# Guess: a shell runs the command, as the name says.
# Happens: the text is cut at blanks, and each word is an argument: `>`, `|` and `&&` go to the program, a quoted 'a b' is two
#   arguments with a quotation mark each, and $HOME and *.dat stay as they are. For programs that take any argument, the
#   task is 'done'. The arguments of a script.py are cut likewise.
# Who meets it: `mq submit "shell:./solver input > log" -R 8:1h`: the solver gets `>` and `log`, and there is no log.
# Instead: a script with the command, `mq submit shell:./run.sh`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore HOME=$T
mkdir "$T/.myqueue" "$T/run"; cd "$T"
python3 -m venv --without-pip v; python3 -m pip -q --python v/bin/python install myqueue==26.8.1
cat >.myqueue/config.py <<'P'
config = {'scheduler': 'slurm', 'mpiexec': 'srun', 'nodes': [('all', {'cores': 8, 'memory': '8G'})]}
P
cd run
printf '#!/bin/sh\nprintf "solver got:"; printf " <%%s>" "$@"; echo\n' >solver; chmod +x solver
printf '#!/bin/sh\n./solver input > log\n' >run.sh; chmod +x run.sh
show() { # task: the line that its job would have, run
    rm -f log
    line=$(../v/bin/mq submit "$1" -R 1:1m -z -v | sed -n '/ cd /,/ touch/p' | sed '1d;$d; s/ && \\$//; s/^ *//')
    echo "$1: $(bash -c "$line")$([ ! -f log ] || echo "log has: $(cat log)")"
}
{
    show 'shell:./solver input > log'
    show 'shell:./solver input | tee log'
    show "shell:./solver 'two words'"
    # shellcheck disable=SC2016
    show 'shell:./solver $USER *.dat'
    show 'shell:./run.sh'
} | tee out
diff - out <<'P'
shell:./solver input > log: solver got: <input> <>> <log>
shell:./solver input | tee log: solver got: <input> <|> <tee> <log>
shell:./solver 'two words': solver got: <'two> <words'>
shell:./solver $USER *.dat: solver got: <$USER> <*.dat>
shell:./run.sh: log has: solver got: <input>
P
echo "as observed: no shell runs a shell: task of MyQueue"
