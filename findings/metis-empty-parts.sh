#!/usr/bin/env bash
# What: gpmetis and mpmetis with few vertices or elements for each part; Debian metis 5.1.0.dfsg-7.
# Guess: 50 parts of 100 elements are 50 parts, with an imbalance of 1.03 where the numbers allow it: two each.
# Happens: mpmetis has elements in 16 of the 50 parts only, and gpmetis vertices in 29 of 30 for a grid of 10 x 10, in
#   152 of 200 for one of 20 x 20. The status is 0, and no word says that parts are empty; the imbalance is reported
#   in a line such as 'constraint #0: 1.500 out of 0.500'.
# Who meets it: who divides blocks or a coarse mesh over ranks: some have nothing to do, and solvers that take each
#   part for non-empty stop, or wait, far from the cause.
# Instead: -ptype=rb; and `sort -u FILE.part.N | wc -l`, which must be N.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install metis=5.1.0.dfsg-7 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
awk 'BEGIN { n = 10; print n * n       # quadrilaterals of a square
    for (i = 0; i < n; i++) for (j = 1; j <= n; j++) {
        a = i * (n + 1) + j; print a, a + 1, a + n + 2, a + n + 1 } }' >mesh
grid() { # a graph of $1 x $1 vertices
    awk -v n="$1" 'BEGIN { print n * n, 2 * n * (n - 1)
        for (i = 0; i < n; i++) for (j = 1; j <= n; j++) { v = i * n + j; line = ""
            if (i) line = line " " v - n; if (i < n - 1) line = line " " v + n
            if (j > 1) line = line " " v - 1; if (j < n) line = line " " v + 1; print line } }'
}
grid 10 >grid10; grid 20 >grid20
used() { # program, options, file, parts
    local result=0
    # shellcheck disable=SC2086
    "$1" $2 "$3" "$4" >words 2>&1 || result=$?
    part=$3.part.$4; [ "$1" = gpmetis ] || part=$3.epart.$4
    echo "$1 ${2:+$2 }$3 $4: $(sort -u "$part" | wc -l) parts, status $result, 'empty' $(grep -ci empty words || true)"
}
{
    used mpmetis "" mesh 50
    used mpmetis -ptype=rb mesh 50
    used gpmetis "" grid10 20
    used gpmetis "" grid10 30
    used gpmetis "" grid20 200
    used gpmetis -ptype=rb grid20 200
} | tee out
diff - out <<'P'
mpmetis mesh 50: 16 parts, status 0, 'empty' 0
mpmetis -ptype=rb mesh 50: 50 parts, status 0, 'empty' 0
gpmetis grid10 20: 20 parts, status 0, 'empty' 0
gpmetis grid10 30: 29 parts, status 0, 'empty' 0
gpmetis grid20 200: 152 parts, status 0, 'empty' 0
gpmetis -ptype=rb grid20 200: 200 parts, status 0, 'empty' 0
P
echo "as observed: METIS leaves parts empty, and says nothing"
