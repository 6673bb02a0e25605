#!/usr/bin/env bash
# What: `-n` (bytes to send) with `-P 4` (streams); Debian iperf3 3.12-1+deb12u2, iperf 2.1.8+dfsg-1.
# Guess: each of the 4 streams sends that much, as each has the rate of -b to itself (iperf3's manual says so of -b, and of -n nothing).
# Happens: iperf3's -n is for all streams together, its -b for each. iperf 2, with the same letters, sends -n on each stream. So
#   `-P 4 -n 8M` moves 8 MB with one and 32 MB with the other, and a stream of iperf3 may get any share of the 8.
# Who meets it: comparisons with measurements that were made by the other version; tests that are to load each core or queue with a
#   fixed amount: with iperf3 they end after 1/P of the time, and a slow stream hides behind the fast ones.
# Instead: -t; or one iperf3 for each stream, with its own -p; or P times the bytes, and a look at each stream's line.
set -euo pipefail
T=$(mktemp -d); trap '[ -z "${servers-}" ] || kill $servers 2>/dev/null || true; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1 iperf=2.1.8+dfsg-1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu"
PATH="$T/usr/bin:$PATH"
iperf3 --version | head -n 1; iperf -v 2>&1 | head -n 1 || true
iperf3 -s -B 127.0.0.1 -p 15392 >/dev/null 2>&1 & servers=$!
iperf -s -B 127.0.0.1 -p 15393 >/dev/null 2>&1 & servers="$servers $!"
sleep 1
total() { grep SUM answer | grep -v receiver | tail -n 1 | grep -oE '[0-9.]+ [MK]Bytes'; }
{
    iperf3 -c 127.0.0.1 -p 15392 -P 4 -n 8M >answer; echo "iperf3 -P 4 -n 8M: $(total) in all"
    iperf -c 127.0.0.1 -p 15393 -P 4 -n 8M >answer; echo "iperf -P 4 -n 8M: $(total) in all"
    sleep 1
    iperf3 -c 127.0.0.1 -p 15392 -P 1 -n 8M >answer; echo "iperf3 -P 1 -n 8M: $(grep sender answer | grep -oE '[0-9.]+ [MK]Bytes') in all"
} | tee out
diff - out <<'P'
iperf3 -P 4 -n 8M: 8.00 MBytes in all
iperf -P 4 -n 8M: 32.0 MBytes in all
iperf3 -P 1 -n 8M: 8.00 MBytes in all
P
echo "as observed: iperf3's -n is for all streams together, iperf's for each"
