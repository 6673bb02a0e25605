#!/usr/bin/env bash
# What: options of GNU parallel together with --onall or --nonall; Debian parallel 20221122+ds-2. `ssh` is a stand-in.
# Guess: --nonall runs one command on each host and --onall all commands on each; all other options do what they do
#   without: --dry-run prints the commands and runs none.
# Happens: options are handed on by a list that many are not in; those are dropped, with status 0 and no message.
#   --dry-run runs the commands on all hosts. --results writes nothing, --halt halts nothing, --nice is not
#   obeyed, -n 2 gives one argument to each command, --link pairs each argument with all of the other source, and -0
#   does not separate the input. --joblog, --tag, --timeout, --env and --colsep work.
# Who meets it: who tries `parallel --dry-run --nonall --slf hosts 'rm -r /scratch/*'` before it is meant; or collects
#   what the hosts say in --results, which without --nonall has a folder for each.
# Instead: the hosts as arguments, `parallel --dry-run -j0 ssh {} COMMAND :::: HOSTS`, which has all options.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q parallel=20221122+ds-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
mkdir shim
cat >shim/ssh <<'P'
#!/bin/bash
HOST=$1; shift; [ "$1" != -- ] || shift
export HOST; exec sh -c "$*"
P
chmod +x shim/ssh
export PATH="$T/shim:$T/usr/bin:$PATH" HOME=$T
parallel --version | sed -n 1p
on() { parallel --will-cite -j1 -k "$@" 2>&1 </dev/null || echo "status $?"; }
all=(--onall -S pc1)        # one host, so that the difference is none of the number of hosts
one=(-S 1/pc1)
case_() { # name, options and command
    local name=$1; shift
    echo "$name: $(on "${one[@]}" "$@" | xargs)"
    echo "$name --onall: $(on "${all[@]}" "$@" | xargs)"
}
{
    parallel --will-cite --dry-run --nonall -S pc1,pc2 'touch ran-$HOST' 2>&1
    echo "--dry-run --nonall: status $?, $(echo ran-*)"
    case_ '--dry-run' --dry-run 'echo ran' ::: 1
    case_ '-n 2' -n 2 'echo {},' ::: 1 2 3 4
    case_ '--link' --link 'echo {1}{2},' ::: 1 2 ::: a b
    case_ '--halt' --halt now,fail=1 'echo {}, >&2; exit {}' ::: 1 2 | grep -o '^.*: .,\( .,\)\?'
    written() { [ -d files ] && echo written || echo nothing; rm -rf files; }
    on "${one[@]}" --results files echo {} ::: 1 >/dev/null; echo "--results: $(written)"
    on "${all[@]}" --results files echo {} ::: 1 >/dev/null; echo "--results --onall: $(written)"
} | tee out
diff - out <<'P'
--dry-run --nonall: status 0, ran-pc1 ran-pc2
--dry-run: echo ran 1
--dry-run --onall: ran 1
-n 2: 1 2, 3 4,
-n 2 --onall: 1, 2, 3, 4,
--link: 1a, 2b,
--link --onall: 1a, 1b, 2a, 2b,
--halt: 1,
--halt --onall: 1, 2,
--results: written
--results --onall: nothing
P
echo "as observed: --onall and --nonall drop options, --dry-run among them"
