#!/usr/bin/env bash
# What: `borg create` of a folder that is not there, and `borg prune` afterwards; Debian borgbackup 1.2.4-1.
# Guess: where nothing of what is named is there, an error, status 2, and no archive; prune does not count what is incomplete:
#   'Checkpoint archives are not considered'.
# Happens: an archive without a file, and status 1, a warning, as for one file that changed meanwhile. prune counts it as the
#   backup of its day: after 7 days `--keep-daily 7` has deleted all archives that have the files. The script for backups in
#   borg's own guide goes on to prune after any status, and says 'finished with warnings' as on any other day.
# Who meets it: backups of a file system that is no longer mounted below its folder, of a folder that was moved or renamed, and
#   of users' folders with a misspelled one among them (status 1, too).
# Instead: `[ -d FOLDER ] || exit 2` first, and no prune unless the status of create is 0, or its warnings are of changed files.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install borgbackup=1.2.4-1 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/borg" ] || root=$T
export PYTHONPATH=$root/usr/lib/python3/dist-packages LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
export HOME=$T BORG_BASE_DIR=$T BORG_REPO=$T/repo BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
borg() { /usr/bin/python3 "$root/usr/bin/borg" "$@"; }
show() { # comment
    echo "$1:"
    for archive in $(borg list --short); do
        echo "    $archive with $(borg list --format '{type}{NL}' "::$archive" | grep -c -- - || true) files"
    done
}
mkdir data; echo 1 >data/first; echo 2 >data/second
borg init -e none >/dev/null 2>&1
{
    for day in 01 02 03 04 05 06 07 08 09 10; do
        [ $day != 04 ] || mv data moved
        status=0; borg create --timestamp 2024-05-${day}T03:00:00 ::pc1-$day data 2>words || status=$?
        echo "day $day: status $status$(sed -n '1s/^/, /p' words)"
        pruned=0; borg prune -a 'pc1-*' --keep-daily 7 >words 2>&1 || pruned=$?
        [ $pruned = 0 ] || { cat words; exit 1; }
        [ $day != 06 ] || show "after three days without the folder"
    done
    show "after seven"
} | tee out
diff - out <<'P'
day 01: status 0
day 02: status 0
day 03: status 0
day 04: status 1, data: [Errno 2] No such file or directory: 'data'
day 05: status 1, data: [Errno 2] No such file or directory: 'data'
day 06: status 1, data: [Errno 2] No such file or directory: 'data'
after three days without the folder:
    pc1-01 with 2 files
    pc1-02 with 2 files
    pc1-03 with 2 files
    pc1-04 with 0 files
    pc1-05 with 0 files
    pc1-06 with 0 files
day 07: status 1, data: [Errno 2] No such file or directory: 'data'
day 08: status 1, data: [Errno 2] No such file or directory: 'data'
day 09: status 1, data: [Errno 2] No such file or directory: 'data'
day 10: status 1, data: [Errno 2] No such file or directory: 'data'
after seven:
    pc1-04 with 0 files
    pc1-05 with 0 files
    pc1-06 with 0 files
    pc1-07 with 0 files
    pc1-08 with 0 files
    pc1-09 with 0 files
    pc1-10 with 0 files
P
echo "as observed: borg keeps archives without files, and prunes those that have them"
