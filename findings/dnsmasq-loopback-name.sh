#!/usr/bin/env bash
# What: dnsmasq on a head node that Debian's installer set up; Debian dnsmasq-base 2.90-4~deb12u2.
# Guess: dnsmasq answers other hosts with addresses that other hosts can use.
# Happens: it serves /etc/hosts as it is. The installer wrote `127.0.1.1 head` there, so each PC that asks for `head` gets
#   127.0.1.1, which is the PC itself. rcode 0, no warning, and on the head all looks right. A PC with two lines (admin and
#   data network) gets both addresses in turns: each second look-up begins with the other network.
# Who meets it: NFS mounts, Slurm's controller, MPI and ssh to `head` from a PC reach the PC: 'connection refused' by a host
#   that is up; jobs whose names change networks from run to run.
# Instead: `no-hosts` and `addn-hosts=` with a file of real addresses, one name for each network (pc1, pc1-data), or
#   delete the 127.0.1.1 line. Look with `dig head @HEAD`, from a PC.
set -euo pipefail
T=$(mktemp -d); chmod 755 "$T"
trap '[ -z "${server-}" ] || kill "$server" 2>/dev/null || true; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q dnsmasq-base=2.90-4~deb12u2 libnetfilter-conntrack3 libnfnetlink0 libhogweed6 libnettle8 libgmp10 libdbus-1-3 libidn2-0 >/dev/null
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH="$T/usr/lib/x86_64-linux-gnu"
printf '%s\n' '127.0.0.1 localhost' '127.0.1.1 head.lab head' '10.1.0.11 pc1' '10.2.0.11 pc1' >hosts # as in /etc/hosts
usr/sbin/dnsmasq --version | head -n 1
usr/sbin/dnsmasq --no-daemon --no-resolv --no-hosts --addn-hosts="$T/hosts" --listen-address=127.0.0.1 --bind-interfaces \
    --port=15353 --conf-file=/dev/null --user="$(id -un)" --group="$(id -gn)" >log 2>&1 &
server=$!
cat >ask.py <<'P'
import socket, struct, sys
name = sys.argv[1]
question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0)
question += b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0" + struct.pack(">2H", 1, 1)
for _ in range(50):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.5)
        try:
            client.connect(("127.0.0.1", 15353)); client.send(question); answer = client.recv(512); break
        except OSError:
            pass
count = struct.unpack(">H", answer[6:8])[0]
addresses = [socket.inet_ntoa(answer[len(question) + 16 * i + 12:][:4]) for i in range(count)]
print(f"{name}: rcode {answer[3] & 15}, {' '.join(addresses)}")
P
for name in head pc1 pc1; do python3 ask.py "$name"; done | tee out
diff - out <<'P'
head: rcode 0, 127.0.1.1
pc1: rcode 0, 10.1.0.11 10.2.0.11
pc1: rcode 0, 10.2.0.11 10.1.0.11
P
echo "as observed: the head's name means the asking PC itself, and a PC's addresses take turns"
