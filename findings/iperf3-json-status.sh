#!/usr/bin/env bash
# What: exit status of `iperf3 -J` (JSON) when the measurement fails; Debian iperf3 3.12-1+deb12u2.
# Guess: 1, as without -J.
# Happens: 0 when the connection is refused, when the server is busy with another client, and when the server dies in the
#   middle. The reason is in the member "error" of the JSON, `end` is `{}` or has what there was until then.
# Who meets it: a script that measures all pairs of hosts with `iperf3 -J` and `set -e`, or a systemd timer, cron job or
#   textfile collector: pairs that were busy (a server takes one client at a time, so this is common in an all-pairs run)
#   are taken as measured, and `jq '.end.sum_received.bits_per_second'` gives null, which becomes 0 or a hole.
# Instead: `jq -e 'has("error") | not'` on each answer, and one server port for each pair.
set -euo pipefail
T=$(mktemp -d); chmod 755 "$T"
trap '[ -z "${server-}" ] || kill "$server" 2>/dev/null || true; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q iperf3=3.12-1+deb12u2 libiperf0=3.12-1+deb12u2 libsctp1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu"
PATH="$T/usr/bin:$PATH"
iperf3 --version | head -n 1
try() { # what, options
    local result=0
    iperf3 -c 127.0.0.1 -t 1 "${@:2}" >answer 2>&1 || result=$?
    echo "$1: status $result, $(grep -o 'unable to connect to server\|the server is busy' answer)"
}
{ try 'no server' -p 15390
  try 'no server -J' -p 15390 -J
  iperf3 -s -B 127.0.0.1 -p 15391 >/dev/null 2>&1 & server=$!
  sleep 1
  iperf3 -c 127.0.0.1 -p 15391 -t 4 -b 1M >/dev/null 2>&1 & client=$!
  sleep 1
  try 'busy server' -p 15391
  try 'busy server -J' -p 15391 -J
  wait "$client" || true; kill "$server"; } | tee out
diff - out <<'P'
no server: status 1, unable to connect to server
no server -J: status 0, unable to connect to server
busy server: status 1, the server is busy
busy server -J: status 0, the server is busy
P
echo "as observed: with -J a failed measurement exits with 0"
