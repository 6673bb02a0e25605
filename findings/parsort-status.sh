#!/usr/bin/env bash
# What: parsort of GNU parallel with an input or an option that it cannot handle; Debian parallel 20221122+ds-2.
# Guess: 'It works just like sort': what sort can read, it can, and a status other than 0 where sort has one.
# Happens: the status is 0 whatever happens. One missing file among many, a pipe (`<(zcat ...)`), `-`, a file of /proc
#   or a full temporary folder give an empty result, where sort sorts them or exits with 2. `-c` is 0 for a file that is
#   not sorted.
# Who meets it: scripts that have parsort for sort, for its speed. `parsort part-*.txt >all.txt && rm part-*.txt`
#   deletes the parts of a result that is empty, where one part is a link to nowhere.
# Instead: `sort --parallel=N`; or compare the number of lines afterwards.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q parallel=20221122+ds-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export PATH="$T/usr/bin:$PATH" HOME=$T LC_ALL=C
parsort --version | sed -n 1p
seq 10 | shuf >a; seq 20 30 | shuf >b
seq 100000 | shuf >large
ln -s /nowhere link
compare() { # how it is called, with sort's name left out
    for program in sort parsort; do
        status=0; eval "$program $1" >out.$program 2>/dev/null </dev/null || status=$?
        echo "$program $1: $(wc -l <out.$program) lines, status $status"
    done
}
{
    compare '-n a b'
    compare '-n a b link'
    compare '-n <(cat a) b'
    compare '-n a - <b'
    compare '-c a'
    compare '-S 10k -T /nowhere large'
} | tee out
diff - out <<'P'
sort -n a b: 21 lines, status 0
parsort -n a b: 21 lines, status 0
sort -n a b link: 0 lines, status 2
parsort -n a b link: 0 lines, status 0
sort -n <(cat a) b: 21 lines, status 0
parsort -n <(cat a) b: 0 lines, status 0
sort -n a - <b: 21 lines, status 0
parsort -n a - <b: 0 lines, status 0
sort -c a: 0 lines, status 1
parsort -c a: 0 lines, status 0
sort -S 10k -T /nowhere large: 0 lines, status 2
parsort -S 10k -T /nowhere large: 0 lines, status 0
P
echo "as observed: parsort exits with 0 whatever happens"
