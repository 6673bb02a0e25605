#!/usr/bin/env bash
# What: node_network_speed_bytes of an interface without a link; Debian prometheus-node-exporter 1.5.0-1+b6.
# Guess: no sample, or 0, when the kernel does not know the speed.
# Happens: the kernel says -1 (a bridge without ports here; a cable that is out with most Ethernet drivers), and the exporter
#   multiplies it: -125000 bytes/s. Virtual Ethernet pairs claim 10 Gbit/s (1.25e9), whatever is below them.
# Who meets it: `rate(node_network_transmit_bytes_total) / node_network_speed_bytes` is negative for the PC whose cable is
#   out, so 'busier than 80 %' is never true and min() and sum() over a cluster are wrong; 'slower than 1 Gbit/s' fires for
#   every unused port; virbr0 and docker0 of the PCs are in it too.
# Instead: `node_network_speed_bytes > 0 and on (instance, device) node_network_carrier == 1`, and
#   `--collector.netclass.ignored-devices='^(lo|veth.*|virbr.*|docker.*)$'`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: needs root for a network namespace with a bridge"; exit 0; }
cd "$T"
apt-get download -q prometheus-node-exporter=1.5.0-1+b6 >/dev/null 2>&1
dpkg -x ./*.deb .
usr/bin/prometheus-node-exporter --version 2>&1 | head -n 1
cat >inside.sh <<'P'
set -euo pipefail
mount -t sysfs sysfs /sys # of this network namespace
ip link set lo up
ip link add br0 type bridge; ip link set br0 up
ip link add veth0 type veth peer name veth1; ip link set veth0 up; ip link set veth1 up
usr/bin/prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults --collector.netclass >log 2>&1 &
exporter=$!
trap 'kill "$exporter"' EXIT
for interface in br0 veth0; do echo "kernel: $interface $(cat "/sys/class/net/$interface/speed")"; done
for _ in $(seq 50); do
    python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9100/metrics").read().decode())' >metrics 2>/dev/null && break
    sleep 0.2
done
grep '^node_network_speed_bytes' metrics
P
unshare --mount --net bash inside.sh | tee out
grep -qF 'kernel: br0 -1' out
grep -qF 'node_network_speed_bytes{device="br0"} -125000' out
grep -qF 'node_network_speed_bytes{device="veth0"} 1.25e+09' out
echo "as observed: an unknown speed is exported as a negative one"
