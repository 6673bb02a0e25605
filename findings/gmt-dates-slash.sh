#!/usr/bin/env bash
# What: dates that are not written with hyphens, read by GMT; Debian gmt 6.4.0+dfsg-2.
# Guess: they are read, or are NaN, as 2024-02-30 and 2024-13-01 are, or an error.
# Happens: the year is taken, and month and day are 1: 2024/12/31T23:00 is 2024-01-01T23:00, without a word, and with the
#   time of day as it was. The letter T alone makes it a date, without -f. 31-12-2024 is 20 December of the year 31, where
#   2024-30-12 is NaN. A time zone (+02) is dropped. Day and month are read only in the order of FORMAT_DATE_IN.
# Who meets it: data loggers write 2024/12/31. Means by day, trends and plots over a year are of one day, and with hourly
#   values they look good.
# Instead: --FORMAT_DATE_IN=yyyy/mm/dd with each command; and look at the span, `gmt info -fT file`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install gmt=6.4.0+dfsg-2 | awk '/^Inst/ {print $2}')
# shellcheck disable=SC2086
[ -z "$packages" ] || apt-get download -q $packages >/dev/null 2>&1
for deb in *.deb; do [ ! -f "$deb" ] || dpkg -x "$deb" .; done
root=; [ ! -x "$T/usr/bin/gmt" ] || root=$T
L=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$L:$root/usr/lib:$L/blas:$L/lapack GMT_SHAREDIR=$root/usr/share/gmt HOME=$T TMPDIR=$T OPENBLAS_NUM_THREADS=1
convert() { # date, options: prints what GMT makes of it
    local status=0
    printf '%s\n' '2000-01-01T00:00 6' "$1 7" | "$root/usr/bin/gmt" convert "${@:2}" >result 2>words || status=$?
    echo "$*: $(sed -n 's/\t.*//; 2p' result), status $status, $(wc -l <words) lines of errors"
}
{
    convert 2024-12-31T23:00
    convert 2024-12-31T23:00+02:00
    convert 2024/12/31T23:00
    convert 2024.12.31T23:00
    convert 2024/12/31T23:00 --FORMAT_DATE_IN=yyyy/mm/dd
    convert 31-12-2024T23:00
    convert 2024-30-12T23:00
    convert 2024-02-30 -fT
    convert 2024/12/31 -fT
    convert 12/31/2024 -fT
    convert 20241231 -fT
} | tee out
diff - out <<'E'
2024-12-31T23:00: 2024-12-31T23:00:00, status 0, 0 lines of errors
2024-12-31T23:00+02:00: 2024-12-31T23:00:00, status 0, 0 lines of errors
2024/12/31T23:00: 2024-01-01T23:00:00, status 0, 0 lines of errors
2024.12.31T23:00: 2024-01-01T23:00:00, status 0, 0 lines of errors
2024/12/31T23:00 --FORMAT_DATE_IN=yyyy/mm/dd: 2024-12-31T23:00:00, status 0, 0 lines of errors
31-12-2024T23:00: 0031-12-20T23:00:00, status 0, 0 lines of errors
2024-30-12T23:00: NaN, status 0, 0 lines of errors
2024-02-30 -fT: NaN, status 0, 0 lines of errors
2024/12/31 -fT: 2024-01-01T00:00:00, status 0, 0 lines of errors
12/31/2024 -fT: 0012-01-01T00:00:00, status 0, 0 lines of errors
20241231 -fT: 20241-01-01T00:00:00, status 0, 0 lines of errors
E
echo "as observed: 2024/12/31 is 1 January 2024 for GMT"
