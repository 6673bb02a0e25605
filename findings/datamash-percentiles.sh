#!/usr/bin/env bash
# What: `datamash perc:99.9`, and max, min and median of a column with a NaN; Debian datamash 1.7-2.
# Guess: perc:99.9 is the 99.9th percentile, or is refused, as it is alone ('invalid percentile value 0'). max of a column with a NaN is
#   always NaN, or never, and the order of the lines does not matter.
# Happens: after another perc: of the command line, perc:99.9 is that one again: `perc:50 1 perc:99 1 perc:99.9 1` prints the 99th
#   twice, with status 0. max and min are NaN where the NaN is in the first line, and else the numbers'; the median of 2, 5 and NaN
#   is 2, 5 or NaN.
# Who meets it: tables of latencies with p50, p99 and p99.9: the last is too small, which looks like a good network; and columns
#   of a solver's residuals that diverged.
# Instead: Python's statistics or numpy.percentile, or `mlr stats1 -a p99.9`; --narm leaves NaN out.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q datamash=1.7-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
datamash() { usr/bin/datamash "$@" 2>&1 | tr '\t' ' ' || true; }
datamash --version | head -1
{
    echo "99.9 alone: $(seq 1000 | datamash perc:99.9 1)"
    echo "50, 99, 99.9: $(seq 1000 | datamash perc:50 1 perc:99 1 perc:99.9 1)"
    echo "50, 90, 99.9, max: $(seq 1000 | datamash perc:50 1 perc:90 1 perc:99.9 1 max 1)"
    for lines in 'nan 2 5' '2 nan 5' '2 5 nan'; do
        echo "max, min, median of $lines: $(printf '%s\n' $lines | datamash max 1 min 1 median 1)"
    done
} | tee out
diff - out <<'P'
99.9 alone: usr/bin/datamash: invalid percentile value 0
50, 99, 99.9: 500.5 990.01 990.01
50, 90, 99.9, max: 500.5 900.1 900.1 1000
max, min, median of nan 2 5: nan nan 2
max, min, median of 2 nan 5: 5 2 nan
max, min, median of 2 5 nan: 5 2 5
P
echo "as observed: perc:99.9 repeats the percentile before it, and the place of a NaN decides"
