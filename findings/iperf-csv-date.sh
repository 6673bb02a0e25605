#!/usr/bin/env bash
# What: `iperf -y C`, one line of comma-separated values for a measurement; Debian iperf 2.1.8+dfsg-1.
# Guess: each line starts with the date and time of the report: 20261128210050,127.0.0.1,...
# Happens: the date is 19700101000000 in the lines of the client and of the server. With `-i 1` the client's lines have the right date,
#   the sum at the end too; the server needs its own `-i`.
# Who meets it: cron jobs that append `iperf -y C` to a file for months, to see when a link got slow: all lines have one date.
# Instead: `-i` with an interval, and of each run the last line; or `date` beside it, or `iperf -e`, which says when it began.
set -euo pipefail
T=$(mktemp -d); SERVER=; trap '[ -z "$SERVER" ] || kill "$SERVER"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q iperf=2.1.8+dfsg-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
usr/bin/iperf -v || true
serve() { usr/bin/iperf -s -B 127.0.0.1 -p "$PORT" -y C "$@" >>server 2>/dev/null & SERVER=$!; sleep 1; }
stop() { kill "$SERVER"; wait "$SERVER" || true; SERVER=; }
client() { usr/bin/iperf -c 127.0.0.1 -p "$PORT" -t 2 -b 10m -l 8k -y C "$@"; }
dates() { # file: what year each date is of
    cut -d, -f1 "$1" | sed -E "s/^$(date +%Y)[0-9]{10}$/now/" | uniq | xargs
}
serve
client >alone
client -i 1 >intervals
sleep 1; stop
cp server plain; : >server
serve -i 1
client >/dev/null
sleep 1; stop
head -n 1 alone intervals
{
    echo "client: $(dates alone), $(wc -l <alone) line"
    echo "client, -i 1: $(dates intervals), $(wc -l <intervals) lines"
    echo "server: $(dates plain)"
    echo "server, -i 1: $(dates server)"
} | tee out
diff - out <<'P'
client: 19700101000000, 1 line
client, -i 1: now, 3 lines
server: 19700101000000
server, -i 1: now
P
echo "as observed: iperf -y C dates its lines 1970, unless it has -i"
