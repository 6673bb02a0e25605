#!/usr/bin/env bash
# What: max, min and median of a column with a NaN; Debian datamash 1.7-2.
# Guess: max is NaN always, or never, and the order of the lines does not matter.
# Happens: max and min are NaN where the NaN is in the first line, and else the numbers'; the median of 2, 5 and NaN is 2, 5 or NaN.
# Who meets it: tables of a solver's residuals, one of which diverged: after `sort` on another column the maximum is fine.
# Instead: --narm, which leaves NaN out, and a count of how many those were.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q datamash=1.7-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
datamash() { usr/bin/datamash "$@" 2>&1 | tr '\t' ' ' || true; }
datamash --version | head -1
{
    for lines in 'nan 2 5' '2 nan 5' '2 5 nan'; do
        echo "max, min, median of $lines: $(printf '%s\n' $lines | datamash max 1 min 1 median 1)"
    done
} | tee out
diff - out <<'P'
max, min, median of nan 2 5: nan nan 2
max, min, median of 2 nan 5: 5 2 nan
max, min, median of 2 5 nan: 5 2 5
P
echo "as observed: the place of a NaN decides over max, min and median"
