#!/usr/bin/env bash
# What: one dnsmasq that gives some PCs addresses (`static`) and is a proxy for the rest; Debian dnsmasq-base 2.90-4~deb12u2.
# Guess: the tags of the two `dhcp-range` lines choose, in whatever order the lines stand, as with all its other options.
# Happens: with the proxy's line first, the PC with a static address gets no answer at all: no offer, no refusal, and in the log nothing
#   but its vendor class. With the lines in the other order it gets its address. The proxy's PCs are served both ways.
# Who meets it: PXE beside an institute's DHCP server, where one PC needs an address of its own (GRUB under Secure Boot does).
# Instead: the `static` range first, then the `proxy` one.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ "${1-}" != inside ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cp "$0" "$T/script"; cd "$T"
    apt-get download -q dnsmasq-base=2.90-4~deb12u2 libnetfilter-conntrack3 libnfnetlink0 libhogweed6 libnettle8 libgmp10 libdbus-1-3 libidn2-0 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    unshare --net --fork --kill-child bash script inside
    exit
fi
export LD_LIBRARY_PATH="$PWD/usr/lib/x86_64-linux-gnu"
usr/sbin/dnsmasq --version | head -n 1 | cut -d' ' -f1-3
ip link set lo up
ip link add data type veth peer name cable
ip address add 192.168.77.1/24 dev data
ip link set data up; ip link set cable up
ip route add 255.255.255.255 dev cable
for c in all cable; do # both ends are here
    echo 0 >"/proc/sys/net/ipv4/conf/$c/rp_filter"; echo 1 >"/proc/sys/net/ipv4/conf/$c/accept_local"
done
cat >ask.py <<'P'
import socket, sys
mac = bytes([0x52, 0x54, 0, 0, 0, int(sys.argv[1])])
packet = bytearray(236); packet[:4] = 1, 1, 6, 0; packet[4:8] = mac[2:]; packet[10] = 128; packet[28:34] = mac
packet += bytes([99, 130, 83, 99, 53, 1, 1, 60, 32]) + b"PXEClient:Arch:00007:UNDI:003000"
packet += bytes([93, 2, 0, 7, 97, 17, 0]) + b"0123456789abcdef" + bytes([255])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); client.bind(("", 68)); client.settimeout(2)
    client.sendto(packet, ("255.255.255.255", 67))
    try:
        answer = client.recv(1500)
        print("offered", socket.inet_ntoa(answer[16:20]), end="")
    except TimeoutError:
        print("no answer", end="")
P
static='dhcp-range=tag:own,192.168.77.0,static,255.255.255.0,2m'
proxy='dhcp-range=tag:!own,192.168.77.0,proxy,255.255.255.0'
try() { # name, the two lines
    printf '%s\n' port=0 interface=data bind-interfaces "$2" "$3" "dhcp-leasefile=$PWD/leases" \
        'dhcp-host=52:54:00:00:00:05,set:own,192.168.77.15' 'pxe-service=tag:!own,X86-64_EFI,"start",start.efi' \
        'dhcp-boot=tag:own,start.efi' >conf
    usr/sbin/dnsmasq --keep-in-foreground --conf-file="$PWD/conf" --pid-file= --user=root --log-facility=- 2>log &
    server=$!
    for _ in $(seq 50); do grep -q 'sockets bound' log && break; sleep 0.1; done
    echo "$1 first: the PC of its own $(python3 ask.py 5), another $(python3 ask.py 6)"
    kill "$server"; wait "$server" || true
    rm -f leases
}
{ try static "$static" "$proxy"; try proxy "$proxy" "$static"; } | tee out
diff - out <<'P'
static first: the PC of its own offered 192.168.77.15, another offered 0.0.0.0
proxy first: the PC of its own no answer, another offered 0.0.0.0
P
echo "as observed: behind a proxy's range a static one gives no addresses"
