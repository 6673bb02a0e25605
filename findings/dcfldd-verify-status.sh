#!/usr/bin/env bash
# What: `dcfldd if=IMAGE vf=DISK`, which compares the two; Debian dcfldd 1.9-2.
# Guess: a status that is not 0 where they differ, as cmp has it: 'Verify that FILE matches the specified input'.
# Happens: 'Total: Mismatch' on standard error, and 0, where they differ in one byte, where the disk is shorter, and
#   where it is larger. The status is 1 only where a file is not there.
# Who meets it: who writes an image to the disks of all PCs and checks each with `dcfldd ... vf=... && echo good`: all
#   are good.
# Instead: cmp -n SIZE IMAGE DISK, which compares as much as the image has.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q dcfldd=1.9-2 >/dev/null 2>&1
dpkg -x dcfldd_*.deb .
dpkg-deb --field dcfldd_*.deb Package Version | xargs
seq 400000 >image
cp image same
{ head -c 1000000 image; echo -n X; tail -c +1000002 image; } >other
head -c 1000000 image >short
{ cat image; head -c 1000000 /dev/zero; } >larger
{
    for disk in same larger other short absent; do
        by_cmp=0; cmp -s -n "$(stat -c %s image)" image "$disk" || by_cmp=$?
        result=0; usr/bin/dcfldd if=image vf="$disk" >said 2>&1 || result=$?
        echo "$disk: $(grep '^Total' said || echo no result), status $result; cmp's status $by_cmp"
    done
} | tee out
diff - out <<'P'
same: Total: Match, status 0; cmp's status 0
larger: Total: Mismatch, status 0; cmp's status 0
other: Total: Mismatch, status 0; cmp's status 1
short: Total: Mismatch, status 0; cmp's status 1
absent: no result, status 1; cmp's status 2
P
echo "as observed: a disk that differs is a status of 0"
