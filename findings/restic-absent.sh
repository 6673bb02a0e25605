#!/usr/bin/env bash
# What: restic with a folder, path or snapshot that is not there; Debian restic 0.14.0-1+b5.
# Guess: the status is not 0. restic-backup(1): 3 'if some source data could not be read'.
# Happens: `backup data nosuch` leaves the second out with a line and 0 (3 is for a file that cannot be opened, and 1 for a
#   backup where no folder is there). `restore --include` with a path that matches nothing restores nothing, without a
#   word; forget, tag and stats of a snapshot that is not there do nothing. All with 0.
# Who meets it: a nightly copy of /home and /scratch where one is not mounted, or was renamed; a script that restores
#   results and goes on.
# Instead: `test -d` before; `restic ls latest PATH | grep -q .` after a backup; look whether what was restored is there.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q restic=0.14.0-1+b5 >/dev/null 2>&1
dpkg -x restic_*.deb .
export HOME=$T TMPDIR=$T RESTIC_PASSWORD=words RESTIC_REPOSITORY=$T/repository RESTIC_CACHE_DIR=$T/cache
mkdir data; echo 1 >data/result
usr/bin/restic init >/dev/null
try() {
    status=0; usr/bin/restic "$@" >words 2>&1 || status=$?
    said='no word of it'; ! grep -q -e 'does not exist' -e 'no matching ID' -e 'no such file' words || said='says so'
    echo "$*: status $status, $said$([ ! -e back ] || echo "; $(find back -type f | wc -l) file restored")"
    rm -rf back
}
{
    try backup data nosuch
    try backup nosuch
    try restore latest --target back --include /nosuch
    try restore latest --target back --include data
    try restore latest --target back --include Data
    try forget 00000000
    try tag --add keep 00000000
    try stats 00000000
    try restore 00000000 --target back
} | tee out
diff - out <<'E'
backup data nosuch: status 0, says so
backup nosuch: status 1, says so
restore latest --target back --include /nosuch: status 0, no word of it
restore latest --target back --include data: status 0, no word of it; 1 file restored
restore latest --target back --include Data: status 0, no word of it
forget 00000000: status 0, says so
tag --add keep 00000000: status 0, says so
stats 00000000: status 0, says so
restore 00000000 --target back: status 1, says so
E
echo "as observed: restic exits with 0 where a folder, path or snapshot is not there"
