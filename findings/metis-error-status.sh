#!/usr/bin/env bash
# What: the exit status of gpmetis and graphchk for a graph file with an error; Debian metis 5.1.0.dfsg-7.
# Guess: not 0.
# Happens: where the number of edges in the first line is wrong, gpmetis prints 'I detected an error in your input
#   file' to standard output and exits with 0, without a partition. One from an earlier run stays, and is taken for the
#   new one. Weights such as 1.5 end so as well: the text speaks of edges that it did not find. graphchk, which is there
#   to check, says 'Missing edge' and exits with 0. For a vertex that is not there both exit with 254.
# Who meets it: scripts that change a graph, for example refine it, and partition again with `gpmetis ... && mpirun`.
# Instead: rm FILE.part.N before, and `test -s` after.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install metis=5.1.0.dfsg-7 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
export PATH=$T/usr/bin:$PATH LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
printf '%s\n' '4 4' '2 4' '1 3' '2 4' '1 3' >good
printf '%s\n' '4 5' '2 4' '1 3' '2 4' '1 3' >count
printf '%s\n' '4 4 001' '2 1.5 4 1' '1 1.5 3 1' '2 1 4 1' '1 1 3 1' >decimal
printf '%s\n' '4 4' '2 4' '1 3' '2 4' '1 2' >oneway
printf '%s\n' '4 4' '2 4' '1 3' '2 9' '1 3' >vertex
{
    for graph in good count decimal oneway vertex; do
        rm -f $graph.part.2
        result=0; gpmetis $graph 2 >words 2>errors || result=$?
        made=$([ -s $graph.part.2 ] && echo a partition || echo no partition)
        checked=0; graphchk $graph >checks 2>&1 || checked=$?
        echo "$graph: gpmetis status $result, $made, 'error' $(grep -c 'detected an error' words || true);" \
            "graphchk status $checked"
    done
} | tee out
diff - out <<'P'
good: gpmetis status 0, a partition, 'error' 0; graphchk status 0
count: gpmetis status 0, no partition, 'error' 1; graphchk status 0
decimal: gpmetis status 0, no partition, 'error' 1; graphchk status 0
oneway: gpmetis status 0, a partition, 'error' 0; graphchk status 0
vertex: gpmetis status 254, no partition, 'error' 0; graphchk status 254
P
echo "as observed: gpmetis and graphchk exit with 0 for graphs that they find to be wrong"
