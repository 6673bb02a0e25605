#!/usr/bin/env bash
# What: `parsort --files0-from=NAMES`; Debian parallel 20221122+ds-2.
# Guess: the lines of the files named in NAMES, sorted, as from `sort --files0-from`: 'It works just like sort'.
# Happens: each line is there several times, and the result is not sorted, with status 0. parsort takes the names, cuts
#   the files into parts for the processors, and hands --files0-from on to the sort of each part, which then sorts all
#   files; their results are not merged. How many times depends on the files and the processors. -u does not help.
# Who meets it: who sorts the results of thousands of jobs, which are too many for a command line, and then counts with
#   `uniq -c`, or takes a sum or a mean of a column: a sum is several times too large, another one on each PC.
# Instead: `sort --parallel=N --files0-from=NAMES`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q parallel=20221122+ds-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export PATH="$T/usr/bin:$PATH" HOME=$T LC_ALL=C
parsort --version | sed -n 1p
seq 1000 | shuf >a; seq 1001 1500 | shuf >b
printf 'a\0b\0' >names
lines() { wc -l | xargs; }
echo "parsort of names: $(parsort -n --files0-from=names </dev/null | lines) lines, $(nproc) processors"
several() { [ "$1" -gt 1500 ] && [ $(($1 % 1500)) = 0 ] && echo several times 1500 || echo "$1"; }
{
    echo "sort, names: $(sort -n --files0-from=names | lines)"
    echo "parsort, operands: $(parsort -n a b | lines)"
    echo "parsort, names: $(several "$(parsort -n --files0-from=names </dev/null | lines)")"
    parsort -n -u --files0-from=names </dev/null >result 2>words
    echo "status $?, $(lines <words) lines of errors"
    echo "parsort -u, names: $(several "$(lines <result)")"
    sort -c -n result 2>/dev/null || echo "not sorted"
} | tee out
diff - out <<'P'
sort, names: 1500
parsort, operands: 1500
parsort, names: several times 1500
status 0, 0 lines of errors
parsort -u, names: several times 1500
not sorted
P
echo "as observed: parsort multiplies the lines of files that --files0-from names"
