#!/usr/bin/env bash
# What: numbers with an exponent, or with a plus sign, in numsum, numaverage, numbound and numround; Debian num-utils 0.5-15.
# Guess: 2.5e-05 is 2.5e-05, as for awk and datamash: numaverage 'will determine the average from all numbers on input'.
# Happens: what stands before the e is taken for the number: the mean of 2.5e-05 and 7.5e-05 is 5, and 1e3 is less than 2. A
#   number with a plus sign is left out. The status is 0, and nothing is said. The manual pages have no word of exponents; a
#   list of the author's wishes for later versions has.
# Who meets it: lists of times and residuals, where %g of C and Python print small numbers with an exponent: of 0.0002 and
#   9e-05 the largest is 9.
# Instead: datamash (sum 1, mean 1, max 1), or awk '{s += $1} END {print s / NR}'.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q num-utils=0.5-15 datamash=1.7-2 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
dpkg-deb --field num-utils_*.deb Package Version | xargs
num() { perl "usr/bin/$1" "${@:2}" 2>&1; }
for numbers in '0.25 0.75' '2.5e-05 7.5e-05' '0.0002 9e-05' '1e3 2' '1.5E+06 2.5E+06' '+3 5'; do
    tr ' ' '\n' <<<"$numbers" >list
    echo "$numbers: numsum $(num numsum list), numaverage $(num numaverage list), numbound $(num numbound list)," \
        "status $?; awk: sum $(awk '{s += $1} END {print s}' list); datamash: mean $(usr/bin/datamash mean 1 <list)," \
        "max $(usr/bin/datamash max 1 <list)"
done | tee out
diff - out <<'P'
0.25 0.75: numsum 1, numaverage 0.5, numbound 0.75, status 0; awk: sum 1; datamash: mean 0.5, max 0.75
2.5e-05 7.5e-05: numsum 10, numaverage 5, numbound 7.5, status 0; awk: sum 0.0001; datamash: mean 5e-05, max 7.5e-05
0.0002 9e-05: numsum 9.0002, numaverage 4.5001, numbound 9, status 0; awk: sum 0.00029; datamash: mean 0.000145, max 0.0002
1e3 2: numsum 3, numaverage 1.5, numbound 2, status 0; awk: sum 1002; datamash: mean 501, max 1000
1.5E+06 2.5E+06: numsum 4, numaverage 2, numbound 2.5, status 0; awk: sum 4000000; datamash: mean 2000000, max 2500000
+3 5: numsum 5, numaverage 5, numbound 5, status 0; awk: sum 8; datamash: mean 4, max 5
P
echo "as observed: num-utils drop the exponent"
