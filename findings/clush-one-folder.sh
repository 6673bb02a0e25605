#!/usr/bin/env bash
# What: clush with one folder for --outdir and --errdir; Debian python3-clustershell, clustershell 1.9.1-1.
# Guess: a file for each host with its output and its errors, as from `parallel-ssh -o DIR -e DIR`; or a refusal.
# Happens: both are written from the start of one file: the errors overwrite the first bytes of the output. clush exits
#   with 0, and the terminal has all lines.
# Who meets it: who wants one log for each PC. A host without errors has a good file, so it works in the first trials,
#   and the file of the host that has a problem is the one that is damaged.
# Instead: two folders, or 2>&1 in the command.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q clustershell=1.9.1-1 python3-clustershell=1.9.1-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export PYTHONPATH=$T/usr/lib/python3/dist-packages HOME=$T
clush() { /usr/bin/python3 usr/bin/clush -R exec "$@" </dev/null; }
clush --version
command='echo residual 0.001; test %h = pc1 || echo warning >&2; echo done'
clush --outdir=logs --errdir=logs -w 'pc[1-2]' "$command" >terminal 2>&1
echo "status $?, $(wc -l <terminal) lines on the terminal"
for host in pc1 pc2; do echo "$host: $(xargs -d '\n' printf '[%s]' <logs/$host)"; done | tee out
[ "$(wc -l <terminal)" = 5 ]
diff - out <<'P'
pc1: [residual 0.001][done]
pc2: [warning][ 0.001][done]
P
echo "as observed: errors overwrite the output in clush's file of a host"
