#!/usr/bin/env bash
# What: rss-max in the file that runstat writes; Debian cronutils 1.9-3+b1.
# Guess: bytes. The line is `program,rss-max,208916,B`, and B is the unit.
# Happens: it is in KiB, as the kernel counts it: a program that fills 200 MB has 208916, which reads as 204 KiB.
# Who meets it: who runs nightly jobs, or solvers, under runstat and gives its file to a monitor: 64 GB are 64 MB in the
#   chart, and the alert for memory never comes.
# Instead: multiply by 1024; GNU time's %M, which is called kilobytes, has the same number.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q cronutils=1.9-3+b1 time=1.9-0.2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
dpkg-deb --field cronutils_*.deb Package Version | xargs
usr/bin/runstat -f stat python3 -c 'filled = b"x" * 200_000_000'
usr/bin/time -q -o time -f %M python3 -c 'filled = b"x" * 200_000_000'
grep rss-max stat
IFS=, read -r _ _ number unit < <(grep rss-max stat)
echo "200000000 bytes filled: runstat has $number $unit, GNU time $(cat time) kilobytes"
[ "$unit" = B ] && [ "$number" -gt 195000 ] && [ "$number" -lt 300000 ] || exit 1
[ "$(cat time)" -gt 195000 ] && [ "$(cat time)" -lt 300000 ] || exit 1
echo "as observed: rss-max in B is in KiB"
