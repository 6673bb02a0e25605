#!/usr/bin/env bash
# What: dates of 'hours since ...' that are not quite year-month-day, in UDUNITS; Debian udunits-bin 2.2.28-5; PyPI cftime 1.6.5
#   beside it.
# Guess: an error, as for 'hours since 01/02/2000' and for 25:00, and as the manual's grammar (months to 12, days to 31) has it.
# Happens: each is a date, with status 0. The digits that do not fit go on as an hour, minutes or a time zone: 2000-13-01 is
#   January 1, 3 o'clock in zone -1, and the 32nd of January is the 3rd, 2 o'clock. The day of the year 2000-045 (14 February
#   in ISO 8601) is 1 April, 5 o'clock. 09:60 is six past nine. `930` is dropped, but 0930 is half past nine; cftime drops both.
# Who meets it: whoever writes units of time by a script, from an instrument's day of the year or a counter of days that runs on, and reads the
#   file by what is built on UDUNITS: a series at another place in time.
# Instead: year-month-day and hh:mm:ss; read the unit once with cftime (xarray), which refuses these, but not 0930 and 930.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$T"
apt-get download -q udunits-bin=2.2.28-5 libudunits2-0=2.2.28-5 libudunits2-data=2.2.28-5 libexpat1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
python3 -m venv --without-pip v
python3 -m pip -q --python v/bin/python install cftime==1.6.5 numpy==2.3.5
udunits() { # the hours from 2000-01-01 to a date, as a date
    local words status=0 hours
    words=$(LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu usr/bin/udunits2 -H "hours since $1" -W 'hours since 2000-01-01' usr/share/xml/udunits/udunits2.xml 2>&1) || status=$?
    hours=$(sed -n 's/.*since 2000-01-01) = (x.*))\( [-+] .*\)\{0,1\}$/0\1/p' <<<"$words" | tr -d ' ')
    [ -n "$hours" ] || { echo "status $status, $(tail -n 1 <<<"$words" | cut -d ' ' -f 2-4)"; return; }
    echo "status $status, $(date -u -d "@$(awk "BEGIN {printf \"%.0f\", 946684800 + 3600 * ($hours)}")" '+%Y-%m-%d %H:%M')"
}
cf() { v/bin/python -c 'import sys, cftime
try: print(cftime.num2date(0, "hours since " + sys.argv[1], "standard").strftime("%Y-%m-%d %H:%M"))
except Exception as error: print(type(error).__name__)' "$1"; }
for date in '2000-02-14 09:30' 01/02/2000 '2000-01-01 25:00' 2000-13-01 2000-01-32 2000-02-30 2000-045 '2000-01-01 0930' '2000-01-01 930' '2000-01-01 09:60'; do
    echo "$date: udunits2 $(udunits "$date"); cftime $(cf "$date")"
done | tee out
diff - out <<'P'
2000-02-14 09:30: udunits2 status 0, 2000-02-14 09:30; cftime 2000-02-14 09:30
01/02/2000: udunits2 status 1, Don't recognize "hours; cftime TypeError
2000-01-01 25:00: udunits2 status 1, Don't recognize "hours; cftime ValueError
2000-13-01: udunits2 status 0, 2000-01-01 04:00; cftime ValueError
2000-01-32: udunits2 status 0, 2000-01-03 02:00; cftime ValueError
2000-02-30: udunits2 status 0, 2000-03-01 00:00; cftime ValueError
2000-045: udunits2 status 0, 2000-04-01 05:00; cftime TypeError
2000-01-01 0930: udunits2 status 0, 2000-01-01 09:30; cftime 2000-01-01 00:00
2000-01-01 930: udunits2 status 0, 2000-01-01 00:00; cftime 2000-01-01 00:00
2000-01-01 09:60: udunits2 status 0, 2000-01-01 09:06; cftime ValueError
P
echo "as observed: UDUNITS makes a date of nearly everything"
