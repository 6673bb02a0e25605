#!/usr/bin/env bash
# What: two SetEnv lines in ssh_config, or two -o SetEnv=..., and two in sshd_config; Debian openssh-client, openssh-server 1:9.2p1-2+deb12u10.
# Guess: all are set, as two SendEnv lines, AcceptEnv lines or LocalForwards add up. The manual says of SetEnv 'similarly to SendEnv', and
#   of SendEnv that it may be 'spread across multiple SendEnv directives'.
# Happens: the first SetEnv line counts, all others are ignored without a word, on both sides, and also those of another Host block.
# Who meets it: mpirun and parallel shells with `ssh -o SetEnv=OMP_NUM_THREADS=4 -o SetEnv=FI_PROVIDER=tcp`: the second does not reach the
#   other hosts, and ranks there run with a default. A `Host pc*` with a SetEnv of its own loses the one of `Host *`.
# Instead: one line with all of them, `SetEnv A=1 B=2`; look with `ssh -G HOST | grep setenv`.
set -euo pipefail
T=$(mktemp -d); chmod 755 "$T"; trap '[ -z "${server-}" ] || kill "$server" 2>/dev/null || true; rm -rf "$T"' EXIT
[ "$(id -u)" = 0 ] || { echo "skipped: a mount namespace takes root"; exit 0; }
cd "$T"
apt-get download -q openssh-client=1:9.2p1-2+deb12u10 openssh-server=1:9.2p1-2+deb12u10 libwrap0 libselinux1 libaudit1 libcap-ng0 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
for key in host user; do usr/bin/ssh-keygen -q -t ed25519 -N '' -f $key; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
printf '%s\n' "Port $port" 'ListenAddress 127.0.0.1' "HostKey $T/host" "AuthorizedKeysFile $T/user.pub" 'StrictModes no' 'UsePAM no' 'PidFile none' \
    'PermitRootLogin prohibit-password' 'AcceptEnv A B' 'AcceptEnv C D' 'SetEnv S1=yes' 'SetEnv S2=yes' >sshd_config
{ grep -v ^sshd: /etc/passwd; echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin'; } >passwd
unshare -m sh -c 'mount -t tmpfs tmpfs /run; mkdir /run/sshd; mount --bind "$1/passwd" /etc/passwd; exec "$1/usr/sbin/sshd" -D -f "$1/sshd_config"' \
    sh "$T" 2>words & server=$!
sleep 1
printf 'Host 127.0.0.1\n SendEnv C\n SetEnv A=yes\nHost *\n SendEnv D\n SetEnv B=yes\n' >two_blocks
ask() { # configuration file, options
    echo "${*//$T\//}: $(C=yes D=yes usr/bin/ssh -F "$@" -p "$port" -i user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR 127.0.0.1 \
        'echo "A=$A B=$B C=$C D=$D, by the server S1=$S1 S2=$S2"')"
}
usr/bin/ssh -V
{
    ask none
    ask none -o SetEnv=A=yes -o SetEnv=B=yes
    ask none -o SetEnv='A=yes B=yes'
    ask two_blocks
} | tee out
diff - out <<'P'
none: A= B= C= D=, by the server S1=yes S2=
none -o SetEnv=A=yes -o SetEnv=B=yes: A=yes B= C= D=, by the server S1=yes S2=
none -o SetEnv=A=yes B=yes: A=yes B=yes C= D=, by the server S1=yes S2=
two_blocks: A=yes B= C=yes D=yes, by the server S1=yes S2=
P
echo "as observed: of two SetEnv lines the second is ignored, by ssh and by sshd"
