#!/usr/bin/env bash
# What: a time span as `1h30` in units, as RuntimeMaxSec=1h30 or OnUnitActiveSec=2h15; Debian systemd 252.39-1~deb12u2.
# Guess: one hour and 30 minutes, as people write it, or an error, as for 1h30x and 1,5h, and as `sleep 1h30` and
#   `sbatch -t 1h30` have it.
# Happens: one hour and 30 seconds: each number without a unit is seconds, also behind hours or days, and nothing is
#   said. `1d 6` is a day and 6 seconds. The manual has 'If no time unit is specified, generally seconds are assumed' and no
#   example of a number behind another unit.
# Who meets it: `systemd-run -p RuntimeMaxSec=1h30 ./simulation` ends after an hour, and a backup's timer is early.
# Instead: 1h30m, or 90m; `systemd-analyze timespan` tells.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
version=252.39-1~deb12u2
apt-get download -q systemd=$version libsystemd-shared=$version libsystemd0=$version >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/systemd:$libraries:$T/lib/x86_64-linux-gnu LC_ALL=C.UTF-8
for span in 1h30m 1h30 2h15 '1d 6' 90 1,5h 1h30x; do
    status=0; usr/bin/systemd-analyze timespan "$span" >words 2>&1 || status=$?
    echo "$span: status $status, $(sed -n 's/^ *Human: *//p' words)"
done | tee out
diff - out <<'P'
1h30m: status 0, 1h 30min
1h30: status 0, 1h 30s
2h15: status 0, 2h 15s
1d 6: status 0, 1d 6s
90: status 0, 1min 30s
1,5h: status 1, 
1h30x: status 1, 
P
echo "as observed: 1h30 is one hour and 30 seconds"
