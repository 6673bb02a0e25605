#!/usr/bin/env bash
# What: mksquashfs and unsquashfs of Debian squashfs-tools 1:4.5.1-1, exit status.
# Guess: not 0 where a file could not be put into the image, or taken out of it, as tar has it. The manual of
#   unsquashfs: '0 The filesystem listed or extracted OK.'
# Happens: a file that the user may not read is an empty file in the image, and a folder is left out: a line says so,
#   and the status is 0. `unsquashfs IMAGE results/run7`, where the image has no such file, extracts nothing, says
#   nothing, and exits with 0, too.
# Who meets it: who packs a group's results, or a container, into an image and deletes the files where the status was 0:
#   those of a colleague are there by name, and empty.
# Instead: mksquashfs -exit-on-error, whose status is 1; and a look whether the file is there after unsquashfs.
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
    run "unsquashfs results/run1" usr/bin/unsquashfs -q -n -d one image results/run1
    run "unsquashfs results/run7" usr/bin/unsquashfs -q -n -d none image results/run7
    echo "files: $(find one -type f | wc -l), $(find none -type f 2>/dev/null | wc -l)"
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
unsquashfs results/run1: status 0 
unsquashfs results/run7: status 0 
files: 1, 0
P
echo "as observed: what cannot be read is empty, with status 0"
