#!/usr/bin/env bash
# What: the status of mussh; Debian mussh 1.0-1.1, and dsh 0.25.10-1.5 beside it.
# Guess: not 0 where a command failed on a host, or a host was not reached, as dsh and `clush -S` have it.
# Happens: it is 0 whatever happens, one after another or in parallel (-m). The manual has no word about a status.
# Who meets it: an administrator's script that installs packages with `mussh ... && next`: the PC that was off is noticed
#   when a job starts there.
# Instead: dsh; or let each host say so, `-c 'command && echo done'`, and count the lines.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q mussh=1.0-1.1 dsh=0.25.10-1.5 libdshconfig1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export HOME=$T
mkdir bin
cat >bin/ssh <<'E'
#!/bin/bash
# stands for ssh: pc2 is off
for host in "$@"; do [[ $host != *pc[12] ]] || break; done
[[ $host != *pc2 ]] || { echo "ssh: connect to host pc2 port 22: No route to host" >&2; exit 255; }
exec bash -c "${*: -1}"
E
chmod +x bin/ssh
export PATH=$T/bin:$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/usr/lib
run() { local status=0; "$@" >words 2>&1 </dev/null || status=$?; echo "$*: status $status, $(sort words | xargs)"; }
{
    run dsh -r ssh -M -m pc1 -- 'echo done'
    run dsh -r ssh -M -m pc1 -- 'exit 3'
    run dsh -r ssh -M -m pc2 -- 'echo done'
    run mussh -h pc1 -c 'echo done'
    run mussh -h pc1 -c 'exit 3'
    run mussh -h pc2 -c 'echo done'
    run mussh -m -h pc1 pc2 -c 'echo done'
} | tee out
diff - out <<'E'
dsh -r ssh -M -m pc1 -- echo done: status 0, pc1: done
dsh -r ssh -M -m pc1 -- exit 3: status 3, 
dsh -r ssh -M -m pc2 -- echo done: status 255, pc2: ssh: connect to host pc2 port 22: No route to host
mussh -h pc1 -c echo done: status 0, pc1: done
mussh -h pc1 -c exit 3: status 0, 
mussh -h pc2 -c echo done: status 0, pc2: ssh: connect to host pc2 port 22: No route to host
mussh -m -h pc1 pc2 -c echo done: status 0, pc1: done pc2: ssh: connect to host pc2 port 22: No route to host
E
echo "as observed: mussh exits with 0"
