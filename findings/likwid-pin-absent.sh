#!/usr/bin/env bash
# What: processors in likwid-pin's list that the PC does not have; Debian likwid 5.2.2+dfsg1-1.
# Guess: an error, as for `-c 9999` alone, and for `numactl -C` with any list.
# Happens: they are left out, and the program starts with fewer threads, because OMP_NUM_THREADS is set by what is left. A
#   range (`-c 0-9999`) and an expression (`-c E:N:9999`) are cut without a word, and a list (`-c 0,9999`) has one line among
#   the output. The status is that of the program.
# Who meets it: job scripts written for PCs with more cores, and measurements of scaling: a run with '8 threads' has four.
# Instead: `export OMP_NUM_THREADS=8` first, which stays as it is; or look at `likwid-pin -c LIST -p` and count.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q likwid=5.2.2+dfsg1-1 libhwloc15=2.9.0-1 hwloc=2.9.0-1 libnuma1 liblua5.3-0 lua5.3 \
        numactl=2.0.16-1 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
mount -t overlay overlay -o lowerdir="$T/usr:/usr" /usr     # it looks for its parts in /usr
all=$(nproc --all)
unset OMP_NUM_THREADS
cat >program <<'E'
#!/bin/sh
if [ "$OMP_NUM_THREADS" = "$1" ]; then echo "all processors of the PC"; else echo "threads: $OMP_NUM_THREADS"; fi
E
chmod +x program
run() { # command
    status=0; words=$("$@" ./program "$all" 2>&1) || status=$?
    words=$(grep -E '^(CPU|Failed|threads|all p|libnuma: W)' <<<"$words" | head -n 2 | xargs)
    echo "$*: status $status, ${words:-no word}"
}
{
    run likwid-pin -q -c 0
    run likwid-pin -q -c 0,9999
    run likwid-pin -c 0-9999
    run likwid-pin -c E:N:9999
    run likwid-pin -q -c 9999
    OMP_NUM_THREADS=3 run likwid-pin -q -c 0-9999
    run numactl -C 0-9999
} | tee out
diff - out <<'E'
likwid-pin -q -c 0: status 0, threads: 1
likwid-pin -q -c 0,9999: status 0, CPU 9999 not in domain N. threads: 1
likwid-pin -c 0-9999: status 0, all processors of the PC
likwid-pin -c E:N:9999: status 0, all processors of the PC
likwid-pin -q -c 9999: status 1, CPU 9999 not in domain N. Failed to parse cpulist 9999
likwid-pin -q -c 0-9999: status 0, threads: 3
numactl -C 0-9999: status 1, libnuma: Warning: cpu argument 9999 out of range
E
echo "as observed: likwid-pin leaves out processors that are not there"
