#!/usr/bin/env bash
# What: `sadf -t` on a file that another PC recorded; Debian sysstat 12.6.1-1.
# Guess: -t prints the date and the time of the PC that made the file, as `sar -t` does. The manual promises 'the
#   original local time of the data file creator'.
# Happens: the time is that PC's, but the date is the reader's: where midnight lies between the two zones, each line is
#   a day off, in the CSV, the columns, JSON and XML. `sar -t` has the right date; sadf without -t is right, too.
# Who meets it: sites that gather the sa files of many PCs. Each PC wrote with its own zone (or UTC) and the reader has
#   another: for a PC in UTC read in Tokyo, all lines from 15:00 to midnight have tomorrow's date. A plot or a join with
#   a job's start time then takes the load of the day before.
# Instead: `sadf -U` (seconds since 1970), and convert these.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q sysstat=12.6.1-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export S_TIME_FORMAT=ISO LC_ALL=C
# Zones 26 hours apart never have one date, so the result does not depend on the time of day. West has the PC.
west=WEST+12 east=EAST-14
TZ=$west usr/lib/sysstat/sadc 1 3 file >/dev/null
usr/bin/sadf -V 2>&1 | head -1
dates() { grep -oE '[0-9]{4}-[0-9]{2}-[0-9]{2}( |" ?(,|time))' | grep -oE '[0-9-]{10}' | sort -u | xargs; }
right=$(TZ=$west usr/bin/sadf -t -d file -- -w | tail -n +2 | dates)
seconds=$(usr/bin/sadf -U -d file -- -w | tail -1 | cut -d';' -f3)
[ "$(TZ=$west date -d "@$seconds" +%F)" = "${right##* }" ]       # read where it was made, -t is right
{
    for format in -d -p -j -x; do
        got=$(TZ=$east usr/bin/sadf -t $format file -- -w | grep -E ';|	|"timestamp"|<timestamp' | dates)
        echo "sadf -t $format: $([ "$got" = "$right" ] && echo "the PC's date" || echo another date)"
    done
    got=$(TZ=$east usr/bin/sar.sysstat -t -f file -w)
    echo "sar -t: $(grep -q "^Linux.*${right%% *}" <<<"$got" && echo "the PC's date" || echo another date)"
    hour() { cut -d';' -f3 | tail -1 | cut -d' ' -f2; }
    [ "$(TZ=$west usr/bin/sadf -t -d file -- -w | hour)" = "$(TZ=$east usr/bin/sadf -t -d file -- -w | hour)" ]
    echo "time of day: the PC's"
} | tee out
echo "for instance: $right is $(TZ=$east usr/bin/sadf -t -d file -- -w | tail -n +2 | dates)"
diff - out <<'P'
sadf -t -d: another date
sadf -t -p: another date
sadf -t -j: another date
sadf -t -x: another date
sar -t: the PC's date
time of day: the PC's
P
echo "as observed: sadf -t joins the PC's time with the reader's date"
