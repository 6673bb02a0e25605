#!/usr/bin/env bash
# What: `powerman --on` of a PC whose BMC does not answer, with its ipmipower.dev; Debian powerman 2.3.27-2,
#   freeipmi-tools 1.6.10-1+b1.
# Guess: 'Command completed with errors' and a status that is not 0, as for a device that powerman has no connection to.
# Happens: 'Command completed successfully' and 0: the scripts on, off and cycle of ipmipower.dev wait for the next
#   prompt only, and ipmipower's answer, 'connection timeout', is dropped. Only `powerman -q` knows: unknown.
# Who meets it: scripts that switch PCs on before a job or off at night: they count on a status that is always 0.
# Instead: `powerman -q` afterwards, or `ipmipower` itself, whose status is 1.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "skipped: a network namespace takes root"; exit 0; }
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    apt-get download -q powerman=2.3.27-2 libpowerman0=2.3.27-2 libgenders0 libwrap0 freeipmi-tools=1.6.10-1+b1 \
        freeipmi-common=1.6.10-1 libfreeipmi17=1.6.10-1+b1 libipmiconsole2=1.6.10-1+b1 libipmidetect0=1.6.10-1+b1 >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare --mount --net --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
ip link set lo up
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
ipmipower=$(find usr -name ipmipower -type f | head -1)
sed 's/timeout[[:space:]]*60/timeout 5/' etc/powerman/ipmipower.dev >ipmipower.dev     # for bmc2
cat >powerman.conf <<E
include "$T/ipmipower.dev"
listen "127.0.0.1:10101"
device "bmc1" "ipmipower" "$T/$ipmipower -h 127.0.0.1 --session-timeout=1000 --retransmission-timeout=250 |&"
device "bmc2" "ipmipower" "/bin/false |&"
node "pc1" "bmc1" "127.0.0.1"
node "pc2" "bmc2" "127.0.0.2"
E
usr/sbin/powermand -f -c "$T/powerman.conf" >log 2>&1 &
sleep 2
{
    status=0; "$ipmipower" -h 127.0.0.1 --session-timeout=1000 --retransmission-timeout=250 --on >words 2>&1 || status=$?
    echo "ipmipower --on: $(tail -1 words), status $status"
    for arguments in '--on pc1' '--off pc1' '-q pc1' '--on pc2'; do
        status=0
        # shellcheck disable=SC2086
        usr/bin/powerman -h 127.0.0.1 $arguments >words 2>&1 || status=$?
        echo "powerman $arguments: $(grep -E 'Command|Query|unknown' words | xargs), status $status"
    done
} | tee out
diff - out <<'E'
ipmipower --on: 127.0.0.1: connection timeout, status 1
powerman --on pc1: Command completed successfully, status 0
powerman --off pc1: Command completed successfully, status 0
powerman -q pc1: unknown: pc1, status 0
powerman --on pc2: Command completed with errors, status 210
E
echo "as observed: powerman does not look at ipmipower's answer"
