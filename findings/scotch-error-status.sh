#!/usr/bin/env bash
# What: gtst, gcv, gord and scotch_gpart of Scotch with input that is wrong; Debian scotch, libscotch-7.0 7.0.3-2.
# Guess: after 'ERROR' the status is not 0, and gtst, which 'checks the consistency of graphs', says by it whether a
#   graph is consistent.
# Happens: the status is 0 after each of them. gtst names the error and prints its statistics all the same; gcv and gord
#   write a file of a graph without vertices; scotch_gpart with a number of parts that is none leaves the last run's
#   file. And scotch_gpart itself does not check: a graph whose edges are there in one direction only gets a partition.
# Who meets it: `gtst mesh.grf && scotch_gpart 8 mesh.grf mesh.map` in a script: the test never stops it, and the solver
#   reads a distribution of the last mesh, or one for a graph that lacks edges.
# Instead: look for ERROR: `! gtst mesh.grf 2>&1 | grep ERROR`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q scotch=7.0.3-2 libscotch-7.0=7.0.3-2 libbz2-1.0 liblzma5 zlib1g >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$(find "$T/usr/lib" -name 'libscotch*.so*' -printf '%h\n' | sort -u | paste -sd:)
LD_LIBRARY_PATH=$libraries:$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH PATH="$T/usr/bin:$PATH"
gtst -V 2>&1 | sed -n 1p
printf '0\n4 6\n0 000\n1 1\n2 0 2\n2 1 3\n1 2\n' >line.grf         # 0 - 1 - 2 - 3
printf '0\n4 5\n0 000\n1 1\n2 0 2\n2 1 3\n0\n' >direction.grf      # 3 has no edge to 2
printf 'no graph\n' >text.graph
run() { # file that is made, command
    status=0; "${@:2}" >words 2>&1 || status=$?
    echo "${*:2}: status $status, $(grep -c ERROR words) errors${1:+, $1 of $(cat "$1" | wc -c) bytes}"
}
{
    run '' gtst line.grf
    run '' gtst direction.grf
    run out.grf gcv -ic text.graph out.grf
    run out.ord gord text.graph out.ord
    run out.map scotch_gpart 2 line.grf out.map
    run out.map scotch_gpart two line.grf out.map
    run out2.map scotch_gpart 2 direction.grf out2.map
} | tee out
diff - out <<'P'
gtst line.grf: status 0, 0 errors
gtst direction.grf: status 0, 1 errors
gcv -ic text.graph out.grf: status 0, 1 errors, out.grf of 12 bytes
gord text.graph out.ord: status 0, 1 errors, out.ord of 2 bytes
scotch_gpart 2 line.grf out.map: status 0, 0 errors, out.map of 18 bytes
scotch_gpart two line.grf out.map: status 0, 1 errors, out.map of 18 bytes
scotch_gpart 2 direction.grf out2.map: status 0, 0 errors, out2.map of 18 bytes
P
echo "as observed: Scotch's programs exit with 0 after an error"
