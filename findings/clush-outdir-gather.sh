#!/usr/bin/env bash
# What: `clush -b --outdir=DIR`; Debian python3-clustershell, clustershell 1.9.1-1.
# Guess: the output is gathered on the terminal, and DIR has a file for each host; or an error.
# Happens: with -b, -B, -L, --diff or -P neither the files nor the folder are made, and nothing is said, with status 0.
#   Where the folder is left from a run without -b, the old files stay, too.
# Who meets it: who adds -b to a command that writes files, because the terminal is unreadable with 20 PCs, and later
#   evaluates the files: they are from the last run. With --outdir alone files are rewritten.
# Instead: --outdir without these options, and `clubak` or `diff` on the files.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q clustershell=1.9.1-1 python3-clustershell=1.9.1-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export PYTHONPATH=$T/usr/lib/python3/dist-packages HOME=$T
clush() { /usr/bin/python3 usr/bin/clush -R exec -w 'pc[1-3]' "$@" </dev/null; }
clush --version
{
    for option in -q -v -b -B -L --diff -P; do
        status=0; clush $option --outdir=out$option --errdir=errors$option hostname >words 2>&1 || status=$?
        echo "$option: status $status, $(find out$option errors$option -name "pc*" 2>/dev/null | wc -l) files"
        if grep -i dir words; then exit 1; fi
    done
    clush --outdir=logs 'echo first' >/dev/null
    clush -b --outdir=logs 'echo second' >/dev/null
    echo "then -b: $(cat logs/pc1)"
} | tee out
diff - out <<'P'
-q: status 0, 6 files
-v: status 0, 6 files
-b: status 0, 0 files
-B: status 0, 0 files
-L: status 0, 0 files
--diff: status 0, 0 files
-P: status 0, 0 files
then -b: first
P
echo "as observed: clush -b writes no --outdir"
