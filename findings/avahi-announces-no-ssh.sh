#!/usr/bin/env bash
# What: how the PCs of a network find each other's SSH server by multicast DNS; Debian avahi-daemon and avahi-utils 0.8-10+deb12u1
#   with their configuration as packaged, on two hosts (network namespaces) on one wire.
# Guess: `avahi-browse -rt _ssh._tcp` lists the other host, as it does on Fedora; at least `avahi-browse -at` lists something.
# Happens: both list nothing. The package has no service file, and `publish-workstation=no`. The host's name and address are
#   announced all the same: `avahi-resolve -a ADDRESS` and `-n NAME.local` answer.
# Who meets it: programs that look for PCs by Avahi, and administrators who look with avahi-browse and believe that it is off.
# Instead: resolve the addresses of the kernel's neighbours; or copy /usr/share/doc/avahi-daemon/examples/ssh.service into
#   /etc/avahi/services on each PC.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
T=$(mktemp -d); hosts=()
trap 'for host in "${hosts[@]}"; do kill "$host" 2>/dev/null || true; done; wait 2>/dev/null; rm -rf "$T"' EXIT
cd "$T"
V=0.8-10+deb12u1
apt-get download -q avahi-daemon=$V avahi-utils=$V libavahi-core7=$V libavahi-common3=$V libavahi-client3=$V libavahi-common-data=$V \
    libdaemon0 libexpat1 dbus-daemon dbus-bin libdbus-1-3 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
cat >bus.conf <<P
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow user="*"/></policy></busconfig>
P
cat >host.sh <<'P'
mount -t tmpfs tmpfs /run && mkdir -p /run/dbus
mount -t tmpfs etc etc && mkdir etc/up etc/work
mount -t overlay -o "lowerdir=/etc,upperdir=$PWD/etc/up,workdir=$PWD/etc/work" overlay /etc
mkdir -p /etc/avahi; grep -q ^avahi: /etc/passwd || echo 'avahi:x:990:65534::/:/usr/sbin/nologin' >>/etc/passwd
grep -q ^avahi: /etc/group || echo 'avahi:x:990:' >>/etc/group
cp -r "$T"/etc/avahi/. /etc/avahi
hostname "$1"; ip link set lo up
for i in $(seq 300); do ip link show e0 >/dev/null 2>&1 && break; sleep 0.1; done
ip link set e0 up; ip address add "$2/24" dev e0
"$T/usr/bin/dbus-daemon" --config-file="$T/bus.conf" --nopidfile --fork
exec "$T/usr/sbin/avahi-daemon" --no-drop-root --no-chroot --no-rlimits -f /etc/avahi/avahi-daemon.conf >"$T/$1.log" 2>&1
P
for n in 1 2; do
    mkdir -p "work$n/etc"
    (cd "work$n" && T=$T exec unshare --net --mount --uts --pid --fork --kill-child --mount-proc bash "$T/host.sh" "pc$n" "192.0.2.$n") &
    hosts+=($!)
done
inner() { pgrep -P "${hosts[$1]}"; }
until inner 0 >/dev/null && inner 1 >/dev/null; do sleep 0.1; done
sleep 0.5
near=av${BASHPID}
ip link add "$near" type veth peer name e0 netns "$(inner 1)"
ip link set "$near" netns "$(inner 0)" name e0
for n in 1 2; do for i in $(seq 150); do grep -q 'Server startup complete' "pc$n.log" 2>/dev/null && break; sleep 0.2; done; done
on1() { timeout 10 nsenter --net --mount --uts --target "$(inner 0)" env LD_LIBRARY_PATH="$LD_LIBRARY_PATH" "$T/usr/bin/$@" 2>/dev/null; }
"$T/usr/sbin/avahi-daemon" --version
{
    echo "ssh: $(on1 avahi-browse -rpt _ssh._tcp | wc -l)"
    echo "anything: $(on1 avahi-browse -apt | wc -l)"
    echo "by address: $(on1 avahi-resolve -a 192.0.2.2 | tr '\t' ' ')"
    echo "by name: $(on1 avahi-resolve -4 -n pc2.local | tr '\t' ' ')"
} | tee out
diff - out <<'P'
ssh: 0
anything: 0
by address: 192.0.2.2 pc2.local
by name: pc2.local 192.0.2.2
P
echo "as observed: Avahi's default on Debian announces no service, not even ssh; names and addresses it does"
