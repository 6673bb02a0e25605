#!/usr/bin/env bash
# What: Alertmanager told to listen on one address; Debian prometheus-alertmanager 0.25.0-1+b4.
# Guess: `--web.listen-address=ADDRESS:9093` is all that it listens on, and a single Alertmanager looks for no others.
# Happens: it also opens port 9094, TCP and UDP, on all interfaces, for a cluster of Alertmanagers that is not there. And on a
#   host without a private address (10/8, 172.16/12, 192.168/16; PCs of universities often have public ones) it does not start:
#   `unable to initialize gossip mesh ... No private IP address found`, which names neither option nor remedy.
# Who meets it: whoever installs one Alertmanager on a PC. A firewall report finds port 9094; or the unit fails again and again.
# Instead: `--cluster.listen-address=` (empty) turns both off.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: needs root for a network namespace"; exit 0; }
cd "$T"
apt-get download -q prometheus-alertmanager=0.25.0-1+b4 >/dev/null 2>&1
dpkg -x ./*.deb .
usr/bin/prometheus-alertmanager --version 2>&1 | head -n 1
printf 'route: { receiver: none }\nreceivers: [ { name: none } ]\n' >conf.yml
cat >inside.sh <<'P'
set -euo pipefail
address=$1; shift
ip link set lo up
mount -t overlay -o "lowerdir=$PWD/usr/share:/usr/share" templates /usr/share # where it looks for its own
ip link add eth0 type bridge; ip address add "$address/24" dev eth0; ip link set eth0 up
usr/bin/prometheus-alertmanager --config.file=conf.yml --storage.path=data --web.listen-address="$address:9093" "$@" >log 2>&1 &
pid=$!
for _ in $(seq 40); do
    kill -0 "$pid" 2>/dev/null || { echo "$address $*: ended: $(grep -o 'No private IP address found' log | head -n 1)"; exit; }
    [ -z "$(ss -Hltn "sport = :9093")" ] || break
    sleep 0.1
done
echo "$address $*: listens on $(ss -Hltn | awk '{print $4}' | sort | xargs)"
kill "$pid"
P
{
    unshare --net --mount bash inside.sh 192.168.77.1
    unshare --net --mount bash inside.sh 198.51.100.1
    unshare --net --mount bash inside.sh 198.51.100.1 --cluster.listen-address=
} | sed 's/ *:/:/' | tee out
diff - out <<'P'
192.168.77.1: listens on *:9094 192.168.77.1:9093
198.51.100.1: ended: No private IP address found
198.51.100.1 --cluster.listen-address=: listens on 198.51.100.1:9093
P
echo "as observed: one Alertmanager opens 9094 everywhere, or does not start where addresses are public"
