#!/usr/bin/env bash
# What: ipmitool over lanplus with a wrong password, and with a BMC that is not there; Debian ipmitool 1.8.19-4+deb12u2, BMC:
#   ipmi_sim of openipmi 2.0.33-1+b1.
# Guess: the two are told apart, as FreeIPMI does (`password invalid`, `connection timeout`).
# Happens: both are `Error: Unable to establish IPMI v2 / RMCP+ session`, status 1. The BMC's answer says which it was.
# Who meets it: scripts that call again 'until the BMC is back': with a wrong password each try is one more failed login, and BMCs
#   lock the user out, or themselves, after a few.
# Instead: FreeIPMI's ipmipower; or `ipmitool -v`, whose `RAKP 2 HMAC is invalid` is a wrong password.
set -euo pipefail
T=$(mktemp -d); SIM=; trap '[ -z "$SIM" ] || kill "$SIM"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q ipmitool=1.8.19-4+deb12u2 libfreeipmi17=1.6.10-1+b1 openipmi=2.0.33-1+b1 libopenipmi0=2.0.33-1+b1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
read -r PORT SILENT < <(python3 -c 'import socket
a, b = (socket.socket(type=socket.SOCK_DGRAM) for _ in "ab")
a.bind(("127.0.0.1", 0)); b.bind(("127.0.0.1", 0)); print(a.getsockname()[1], b.getsockname()[1])')
printf '#!/bin/sh\necho power:1\n' >hook; chmod +x hook; mkdir state
cat >lan.conf <<C
name "bmc"
set_working_mc 0x20
startlan 1
addr 127.0.0.1 $PORT
priv_limit admin
allowed_auths_admin none md2 md5 straight
guid a123456789abcdefa123456789abcdef
endlan
chassis_control "$T/hook"
user 2 true "admin" "right" admin 10 none md2 md5 straight
C
printf '%s\n' 'mc_setbmc 0x20' 'mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr' 'mc_enable 0x20' >commands
usr/bin/ipmi_sim -n -c lan.conf -f commands -s state >/dev/null 2>&1 & SIM=$!
sleep 2
usr/bin/ipmitool -V
printf right >right; printf wrong >wrong
ask() {
    status=0
    said=$(usr/bin/ipmitool -I lanplus -C 3 -N 1 -R 1 -H 127.0.0.1 -p "$2" -U admin -f "$3" chassis power status 2>&1) || status=$?
    echo "$1: status $status, $(echo "$said" | grep . | tail -n 1)"
}
{ ask 'right password' "$PORT" right; ask 'wrong password' "$PORT" wrong; ask 'no BMC' "$SILENT" right; } | tee out
diff - out <<'P'
right password: status 0, Chassis Power is on
wrong password: status 1, Error: Unable to establish IPMI v2 / RMCP+ session
no BMC: status 1, Error: Unable to establish IPMI v2 / RMCP+ session
P
usr/bin/ipmitool -v -I lanplus -C 3 -N 1 -R 1 -H 127.0.0.1 -p "$PORT" -U admin -f wrong chassis power status >verbose 2>&1 || true
grep -F 'RAKP 2 HMAC is invalid' verbose
echo "as observed: a wrong password and an absent BMC are one error"
