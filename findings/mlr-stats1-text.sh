#!/usr/bin/env bash
# What: Miller's `stats1` of a column in which one entry is no number; Debian miller 6.6.0-2+b3.
# Guess: an error, as Miller's own expressions have it ((error) for 2 + FAILED), or the entry is left out of all figures. An entry
#   'nan' is a number, and makes sum and mean NaN.
# Happens: sum and mean leave it out, count counts it, and max is it: of 2, FAILED, 6 the mean is 4, the sum 8, the count 3, the maximum
#   FAILED. So sum / count is not the mean. 'nan' and 'inf' are such entries too. The status is 0, and nothing is said. An empty
#   entry is left out of all of them.
# Who meets it: tables of benchmarks with FAILED, timeout or nan where a run gave no time: the mean of those that worked, beside
#   the count of all, and an efficiency of sum / count that is too good.
# Instead: `mlr filter 'is_numeric($time)'` first (of nan and inf, too), and print how many lines it took away.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q miller=6.6.0-2+b3 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
usr/bin/mlr --version
for entry in FAILED nan inf ''; do
    printf 'time\n2\n%s\n6\n' "$entry" >table
    echo "2, '$entry', 6: $(usr/bin/mlr --icsv --onidx --ofs ' ' stats1 -a mean,sum,count,max -f time table), status $?;" \
        "as an expression: $(usr/bin/mlr --icsv --onidx put -q '@sum += $time; end {emit @sum}' table);" \
        "filtered: $(usr/bin/mlr --icsv --onidx --ofs ' ' filter 'is_numeric($time)' then stats1 -a mean,sum,count,max -f time table)"
done | tee out
diff - out <<'P'
2, 'FAILED', 6: 4 8 3 FAILED, status 0; as an expression: (error); filtered: 4 8 2 6
2, 'nan', 6: 4 8 3 nan, status 0; as an expression: (error); filtered: 4 8 2 6
2, 'inf', 6: 4 8 3 inf, status 0; as an expression: (error); filtered: 4 8 2 6
2, '', 6: 4 8 2 6, status 0; as an expression: ; filtered: 4 8 2 6
P
echo "as observed: stats1 counts what is no number, and leaves it out of sum and mean"
