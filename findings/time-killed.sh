#!/usr/bin/env bash
# What: the exit status that GNU time writes (`-f %x`) for a program that was killed; Debian time 1.9-0.2.
# Guess: 137, as the shell has it for SIGKILL, or at least not 0. The manual says of %x: 'Exit status of the command'.
# Happens: 0. time itself exits with 137, and its file has a line before: 'Command terminated by signal 9', which -q leaves out.
#   GNU parallel's --joblog has the same 0 under Exitval (with a column Signal beside it).
# Who meets it: tables of `time -a -o runs -f '%e %M %x'` for many ranks or sizes: those that ran out of memory were killed by the kernel,
#   and are the ones with the short time and status 0.
# Instead: the status of time itself, `time ... ; echo $?`, or `time sh -c 'program; exit $?'`, whose %x is 137.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q time=1.9-0.2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
cat >fails <<'P'
#!/bin/sh
[ "$1" != killed ] || kill -9 $$
exit "$1"
P
chmod +x fails
dpkg-deb --field time_*.deb Package Version | xargs
for how in 0 3 killed; do
    result=0; usr/bin/time -q -o table -f '%x' ./fails $how 2>/dev/null || result=$?
    echo "$how: %x $(cat table), time's own status $result"
done | tee out
usr/bin/time -q -o table -f '%x' sh -c './fails killed; exit $?' 2>/dev/null || true
echo "killed, through a shell: %x $(cat table)" | tee -a out
diff - out <<'P'
0: %x 0, time's own status 0
3: %x 3, time's own status 3
killed: %x 0, time's own status 137
killed, through a shell: %x 137
P
echo "as observed: %x of a killed program is 0"
