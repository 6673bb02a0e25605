#!/usr/bin/env bash
# What: the exit status of `tftp HOST -c get FILE` where no file comes; Debian tftp-hpa 5.2+20150808-1.4, atftp and atftpd 0.8.0-3.
# Guess: not 0, and no file, as with scp or curl. Its own program knows such a status: for a server that does not answer it gives 69.
# Happens: 0 for a file that the server does not have, with an empty file in its place; 0 for a host without an address, and
#   for a folder that is not there, or may not be written. The words go to standard output, but for the last. atftp gives 255 in
#   each case, and leaves an empty file too.
# Who meets it: a check of the netboot server (`tftp head -m binary -c get pxelinux.0 && echo fine`), and scripts that fetch the
#   configurations of switches: those are empty files, and the old ones are lost.
# Instead: `curl -f -o FILE tftp://HOST/FILE`, or atftp; or a look at the size with `test -s`.
set -euo pipefail
T=$(mktemp -d); SERVER=; trap '[ -z "$SERVER" ] || kill "$SERVER"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q tftp-hpa=5.2+20150808-1.4 atftp=0.8.0-3 atftpd=0.8.0-3 libpcre2-8-0 libwrap0 libreadline8 libtinfo6 libnsl2 libtirpc3 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
chmod 755 "$T"; mkdir served; echo words >served/there
PORT=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
usr/sbin/atftpd --daemon --no-fork --user "$(id -un)" --port "$PORT" --bind-address 127.0.0.1 --logfile "$T/log" "$T/served" & SERVER=$!
sleep 1
usr/bin/tftp -V | head -1
outcome() { # name, command
    result=0; timeout 60 "${@:2}" >words 2>errors </dev/null || result=$?
    echo "$1: status $result$([ ! -e got ] || echo ", a file of $(stat -c %s got) bytes")"; rm -f got
}
{
    outcome "tftp, there" usr/bin/tftp -m binary 127.0.0.1 "$PORT" -c get there got
    outcome "tftp, absent" usr/bin/tftp -m binary 127.0.0.1 "$PORT" -c get absent got
    outcome "tftp, unknown host" usr/bin/tftp -m binary node99.invalid "$PORT" -c get there got
    outcome "tftp, no such folder" usr/bin/tftp -m binary 127.0.0.1 "$PORT" -c get there nosuch/got
    outcome "atftp, there" usr/bin/atftp -g -r there -l got 127.0.0.1 "$PORT"
    outcome "atftp, absent" usr/bin/atftp -g -r absent -l got 127.0.0.1 "$PORT"
    outcome "atftp, no such folder" usr/bin/atftp -g -r there -l nosuch/got 127.0.0.1 "$PORT"
    kill "$SERVER"; sleep 1
    outcome "tftp, no server" usr/bin/tftp -m binary 127.0.0.1 "$PORT" -c get there got
} | tee out
SERVER=
diff - out <<'P'
tftp, there: status 0, a file of 6 bytes
tftp, absent: status 0, a file of 0 bytes
tftp, unknown host: status 0
tftp, no such folder: status 0
atftp, there: status 0, a file of 6 bytes
atftp, absent: status 255, a file of 0 bytes
atftp, no such folder: status 255
tftp, no server: status 69, a file of 0 bytes
P
echo "as observed: tftp exits with 0 where it got no file"
