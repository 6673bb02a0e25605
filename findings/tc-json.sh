#!/usr/bin/env bash
# What: `tc -j` (JSON) of a shaped interface; Debian iproute2 6.1.0-3.
# Guess: JSON with the values that the text has, a rate in bit/s ('rate 80Mbit'), as its manual says: 'Display results in JSON format'.
# Happens: status 0 each time. The rate of a tbf is 10000000, bytes a second without a word of it, and its latency 50000, microseconds;
#   the text says 80Mbit and 50ms. `tc -j class show` of an htb prints the text, not JSON.
# Who meets it: scripts that emulate a slow network, or look after one, by `tc -j ... | jq .rate`: they are wrong by 8; a parser
#   that worked with tbf fails with htb.
# Instead: multiply by 8; for classes read the text of `tc -d class show`.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q iproute2=6.1.0-3 libbpf1 libelf1 libmnl0 libxtables12 libcap2 libbsd0 libmd0 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --net "$0"
    exit
fi
cd "$T"
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu" PATH="$T/bin:$T/sbin:$T/usr/bin:$T/usr/sbin:$PATH"
tc -V
ip link add left type veth peer name right; ip link set left up; ip link set right up
tc qdisc add dev left root tbf rate 80mbit burst 64kb latency 50ms
tc qdisc add dev right root handle 1: htb default 10
tc class add dev right parent 1: classid 1:10 htb rate 80mbit quantum 1514
{
    echo "tbf, text: $(tc qdisc show dev left | grep -oE '(rate|lat) [^ ]+' | xargs)"
    echo "tbf, -j: $(tc -j qdisc show dev left | python3 -c 'import json, sys; o = json.load(sys.stdin)[0]["options"]; print(o["rate"], o["lat"])')"
    echo "htb, text: $(tc class show dev right | grep -oE 'rate [^ ]+')"
    tc -j class show dev right >answer; echo "htb, -j: status $?"
    python3 -m json.answer >/dev/null 2>&1 && echo "htb, -j: JSON" || echo "htb, -j: no JSON but $(grep -oE '^class.* rate [^ ]+' answer)"
} | tee out
diff - out <<'P'
tbf, text: rate 80Mbit lat 50ms
tbf, -j: 10000000 50000
htb, text: rate 80Mbit
htb, -j: status 0
htb, -j: no JSON but class htb 1:10 root prio 0 rate 80Mbit
P
echo "as observed: tc -j has other units than tc, and no JSON for classes of htb"
