#!/usr/bin/env bash
# What: the exit status of a measurement whose server is not there; Debian iperf 2.1.8+dfsg-1, sockperf 3.7-1, nuttcp 6.1.2-4+b1, qperf 0.4.11-3.
# Guess: not 0, and no figure.
# Happens: iperf and sockperf exit with 0, though they print an error where TCP is refused; iperf says 'connected' of it before. With UDP
#   iperf prints the 10 Mbit/s that it was told to send, and with -y C a line with 0 lost; `sockperf throughput` (UDP is its default)
#   prints a bandwidth, too. nuttcp and qperf exit with 1.
# Who meets it: scripts that measure all pairs of nodes with `set -e` or `&&`: a PC whose server was not started gives an empty
#   or, with UDP, a good figure.
# Instead: nuttcp or qperf, or take a figure only where the server's report is there: iperf's 'Server Report', sockperf's ping-pong
#   with 'Summary' in its output.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q iperf=2.1.8+dfsg-1 sockperf=3.7-1 nuttcp=6.1.2-4+b1 qperf=0.4.11-3 librdmacm1 libibverbs1 libnl-3-200 libnl-route-3-200 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
for deb in iperf sockperf nuttcp qperf; do dpkg-deb --field ${deb}_*.deb Package Version | xargs; done
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
measure() { # name, what to look for, command
    result=0; timeout 30 "${@:3}" >words 2>&1 || result=$?
    echo "$1: status $result, $(grep -aoE "$2" words | head -1 || true)"
}
{
    measure "iperf TCP" 'connect failed' usr/bin/iperf -c 127.0.0.1 -p "$PORT" -t 1
    measure "iperf UDP" '10\.[01] Mbits/sec' usr/bin/iperf -u -c 127.0.0.1 -p "$PORT" -t 1 -b 10m
    measure "iperf UDP, -y C" ',0\.000,0,-1,-0\.000,0$' usr/bin/iperf -u -c 127.0.0.1 -p "$PORT" -t 1 -b 10m -y C
    measure "sockperf TCP" 'ERROR' usr/bin/sockperf throughput --tcp -i 127.0.0.1 -p "$PORT" -t 1
    measure "sockperf UDP" 'BandWidth is' usr/bin/sockperf throughput -i 127.0.0.1 -p "$PORT" -t 1
    measure "sockperf UDP ping-pong" 'No messages were received' usr/bin/sockperf ping-pong -i 127.0.0.1 -p "$PORT" -t 1
    measure "nuttcp" 'Connection refused' usr/bin/nuttcp -T 1 -p "$PORT" 127.0.0.1
    measure "qperf" 'failed to connect' usr/bin/qperf 127.0.0.1 -lp "$PORT" tcp_bw
} | tee out
diff - out <<'P'
iperf TCP: status 0, connect failed
iperf UDP: status 0, 10.0 Mbits/sec
iperf UDP, -y C: status 0, ,0.000,0,-1,-0.000,0
sockperf TCP: status 0, ERROR
sockperf UDP: status 0, BandWidth is
sockperf UDP ping-pong: status 0, No messages were received
nuttcp: status 1, Connection refused
qperf: status 1, failed to connect
P
echo "as observed: iperf and sockperf exit with 0 where no server is"
