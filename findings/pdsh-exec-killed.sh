#!/usr/bin/env bash
# What: `pdsh -S -R exec` where the command is killed by a signal; Debian pdsh 2.34-0.2.
# Guess: -S returns 'the largest of the remote command return values' (its manual): not 0 if one was killed, as for exit 1.
# Happens: 0. A line on standard error says 'killed by signal 9'. A command that exits with 3 gives 3, one that -u ends gives 254.
# Who meets it: administrators who run ipmipower, rsync, an image writer or a container for each host by `-R exec ... %h` in a script: where
#   the kernel killed one for want of memory, or somebody else ended it, the script goes on as if all hosts were done.
# Instead: `-R exec sh -c 'command %h; exit $?'`, whose status is 137; or look for 'killed by signal' in standard error.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q pdsh=2.34-0.2 libgenders0 libreadline8 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
pdsh() { # it looks for its modules in /usr only, so the package is laid over it
    unshare -m sh -c 'mount -t overlay overlay -o lowerdir="$1/usr:/usr" /usr; shift; exec pdsh "$@"' sh "$T" "$@"
}
pdsh -V 2>&1 | head -n 1
cat >command <<'P'
#!/bin/sh
case $1:$2 in
    *:pc1) exit 0 ;;
    exits:*) exit 3 ;;
    killed:*) kill -9 $$ ;;
    slow:*) exec sleep 10 ;;
esac
P
chmod +x command
try() { # options, how the command ends on pc2
    local result=0
    pdsh -S -R exec "$@" >/dev/null 2>words || result=$?
    echo "$(grep -oE 'killed by signal 9|exit code 3|command timeout' words): status $result"
}
{
    try -w 'pc[1-2]' "$T/command" exits %h
    try -u 1 -w 'pc[1-2]' "$T/command" slow %h
    try -w 'pc[1-2]' "$T/command" killed %h
    try -w 'pc[1-2]' sh -c "$T/command killed %h; exit \$?"
} | tee out
diff - out <<'P'
exit code 3: status 3
command timeout: status 254
killed by signal 9: status 0
: status 137
P
echo "as observed: pdsh -S is 0 where a command was killed"
