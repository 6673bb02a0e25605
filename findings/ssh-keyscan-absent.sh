#!/usr/bin/env bash
# What: `ssh-keyscan pc1 pc2 pc3 >>known_hosts` where one has no sshd up; Debian openssh-client 1:9.2p1-2+deb12u10, openssh-server for the one that is up.
# Guess: a status other than 0, and a line that names the host that did not answer.
# Happens: nothing on standard output or standard error names it, and the status is 0 as long as one host gave a key (1 where none did).
# Who meets it: the recipe for a cluster's known_hosts, `ssh-keyscan -f hosts >/etc/ssh/ssh_known_hosts`: a PC whose sshd was not up that day is
#   missing, and months later mpirun stops at 'Host key verification failed', or asks a person.
# Instead: count: each name of the list must be in the file (`ssh-keygen -F NAME -f FILE`), or `ssh-keyscan -v`.
set -euo pipefail
T=$(mktemp -d); chmod 755 "$T"; trap '[ -z "${server-}" ] || kill "$server" 2>/dev/null || true; rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
cd "$T"
apt-get download -q openssh-client=1:9.2p1-2+deb12u10 openssh-server=1:9.2p1-2+deb12u10 libwrap0 libselinux1 libaudit1 libcap-ng0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
usr/bin/ssh-keygen -q -t ed25519 -N '' -f host
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' "Port $port" 'ListenAddress 127.0.0.1' "HostKey $T/host" 'UsePAM no' 'PidFile none' >sshd_config
{ grep -v ^sshd: /etc/passwd; echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin'; } >passwd
unshare -m sh -c 'mount -t tmpfs tmpfs /run; mkdir /run/sshd; mount --bind "$1/passwd" /etc/passwd; exec "$1/usr/sbin/sshd" -D -f "$1/sshd_config"' \
    sh "$T" 2>words & server=$!
sleep 1
scan() { # hosts, of which only 127.0.0.1 is up
    local result=0
    usr/bin/ssh-keyscan -T 2 -p "$port" -t ed25519 "$@" >keys 2>said || result=$?
    echo "$*: status $result, keys of $(grep -c . keys) hosts, an absent one is named $(grep -c '127.0.0.[89]' said) times"
}
usr/bin/ssh -V
{ scan 127.0.0.1; scan 127.0.0.1 127.0.0.8 127.0.0.9; scan 127.0.0.8 127.0.0.9; } | tee out
diff - out <<'P'
127.0.0.1: status 0, keys of 1 hosts, an absent one is named 0 times
127.0.0.1 127.0.0.8 127.0.0.9: status 0, keys of 1 hosts, an absent one is named 0 times
127.0.0.8 127.0.0.9: status 1, keys of 0 hosts, an absent one is named 0 times
P
echo "as observed: ssh-keyscan says nothing about hosts that do not answer"
