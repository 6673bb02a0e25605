#!/usr/bin/env bash
# What: stressapptest's -s and -M; Debian stressapptest 1.0.6-2.2.
# Guess: `-s 2h -M 20G` tests 20 GB for two hours, as stress-ng takes such figures, or is refused, as an option is that
#   it does not know. The manual has seconds and megabytes, and nothing of units.
# Happens: what follows the digits is dropped: 20 MB for 2 seconds (it then takes 5), 'Status: PASS', and status 0.
# Who meets it: who tests the memory of new PCs over a night: all of them pass, and nearly none of their memory was
#   touched.
# Instead: -s 7200 -M 20000; 'Starting SAT, 20M, 2 seconds' in its words tells what is tested.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q stressapptest=1.0.6-2.2 libaio1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
dpkg-deb --field stressapptest_*.deb Package Version | xargs
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
{
    for options in '-s 2h -M 20G' '-s 3 -M 24' '--secnds 3'; do
        result=0
        # shellcheck disable=SC2086 # they are several words
        timeout 50 usr/bin/stressapptest -m 1 $options >said 2>&1 || result=$?
        echo "$options: $(grep -o -E 'SAT, .*seconds|Status: [A-Z]+' said | xargs), status $result"
    done
} | tee out
diff - out <<'P'
-s 2h -M 20G: SAT, 20M, 2 seconds Status: PASS, status 0
-s 3 -M 24: SAT, 24M, 3 seconds Status: PASS, status 0
--secnds 3: , status 1
P
echo "as observed: 20G for 2h is 20 MB for 2 seconds"
