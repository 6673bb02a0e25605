#!/usr/bin/env bash
# What: stress-ng --vm 4 --vm-bytes 64M; Debian stress-ng 0.15.06-2.
# Guess: four workers of 64 MB each. The manual: '--vm-bytes N: mmap N bytes per vm worker'. It says likewise of
#   --mmap-bytes.
# Happens: the bytes are divided by the number of workers: 16 MB each. stress-ng says nothing of it.
# Who meets it: who tests the memory of a new PC with a worker for each core: `--vm 16 --vm-bytes 2G` on 32 GB writes 2
#   GB, and the 30 others are never touched. Who fills a node to see what a limit or swap does fills a
#   part.
# Instead: the total in --vm-bytes, for instance `--vm 16 --vm-bytes 90%`, and a look at what `free` says meanwhile.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install stress-ng=0.15.06-2 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -d usr ] || root=$T
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
resident() { awk '/^VmRSS/ {print int($2 / 1024 / 16) * 16}' "/proc/$1/status"; }       # MB, in steps of 16
for options in "--vm 1 --vm-bytes 64M --vm-keep" "--vm 4 --vm-bytes 64M --vm-keep" "--vm 4 --vm-bytes 256M --vm-keep"; do
    # shellcheck disable=SC2086
    "$root/usr/bin/stress-ng" -t 5 $options >log 2>&1 &
    sleep 3
    for worker in $(pgrep -P $!); do for child in $(pgrep -P "$worker"); do resident "$child"; done; done >sizes
    wait
    echo "$options: $(wc -l <sizes) processes with $(sort -u sizes | xargs) MB"
done | tee out
diff - out <<'P'
--vm 1 --vm-bytes 64M --vm-keep: 1 processes with 64 MB
--vm 4 --vm-bytes 64M --vm-keep: 4 processes with 16 MB
--vm 4 --vm-bytes 256M --vm-keep: 4 processes with 64 MB
P
echo "as observed: --vm-bytes is divided by the number of workers"
