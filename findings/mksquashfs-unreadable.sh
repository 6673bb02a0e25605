#!/usr/bin/env bash
# What: exit status of mksquashfs of Debian squashfs-tools 1:4.5.1-1.
# Guess: not 0 where a file could not be put into the image, as tar has it.
# Happens: a file that the user may not read is an empty file in the image, and a folder is left out: a line says so,
#   and the status is 0.
# Who meets it: who packs a group's results, or a container, into an image and deletes the files where the status was 0:
#   those of a colleague are there by name, and empty.
# Instead: mksquashfs -exit-on-error, whose status is 1.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: the other user takes root"; exit 0; }
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q squashfs-tools=1:4.5.1-1 liblzo2-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
dpkg-deb --field squashfs-tools_*.deb Package Version | xargs
mkdir -p group/results/run2 && chmod 777 .
echo 1.5 >group/results/run1; echo 2.5 >group/results/run2/energy; echo 3.5 >group/run3
chmod 600 group/run3; chmod 700 group/results/run2
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
as_other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
run() { # WHAT, command
    local result=0
    as_other "${@:2}" >said 2>&1 || result=$?
    echo "$1: status $result" "$(grep -v -e '^tar: Exiting' -e '^$' said || true)"
}
{
    run tar tar -cf image.tar group
    run mksquashfs usr/bin/mksquashfs group image -quiet -no-progress
    run "mksquashfs -exit-on-error" usr/bin/mksquashfs group image2 -quiet -no-progress -exit-on-error
    run unsquashfs usr/bin/unsquashfs -q -n -d all image
    (cd all && find . -type f -printf '%P: %s bytes\n' | sort)
} | tee out
diff - out <<'P'
tar: status 2 tar: group/run3: Cannot open: Permission denied
tar: group/results/run2: Cannot open: Permission denied
mksquashfs: status 0 Could not open group/results/run2, skipping...
Failed to read file group/run3, creating empty file
mksquashfs -exit-on-error: status 1 Could not open group/results/run2
unsquashfs: status 0 
results/run1: 4 bytes
run3: 0 bytes
P
echo "as observed: what cannot be read is empty, with status 0"
