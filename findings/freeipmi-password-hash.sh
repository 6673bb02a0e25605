#!/usr/bin/env bash
# What: a BMC's password with `#` in FreeIPMI's configuration file; Debian freeipmi-tools 1.6.10-1+b1, BMC: ipmi_sim of
#   openipmi 2.0.33-1+b1.
# Guess: in double quotes it is taken as it is, as a value with spaces is.
# Happens: without quotes the rest from `#` on is silently a comment, and the BMC says `password invalid`. In quotes the whole
#   file is refused: `quotation marks used improperly`. A backslash before `#` works; freeipmi.conf(5) has no word of it.
# Who meets it: whoever moves a generated password from a command line, where all can see it, into freeipmi.conf, as its manual
#   recommends. A few retries later some BMCs lock the user out.
# Instead: `password sec\#ret`.
set -euo pipefail
T=$(mktemp -d); SIM=; trap '[ -z "$SIM" ] || kill "$SIM"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q freeipmi-tools=1.6.10-1+b1 libfreeipmi17=1.6.10-1+b1 libipmiconsole2=1.6.10-1+b1 libipmidetect0=1.6.10-1+b1 \
    openipmi=2.0.33-1+b1 libopenipmi0=2.0.33-1+b1 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu
PORT=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
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
user 2 true "admin" "sec#ret" admin 10 none md2 md5 straight
C
printf '%s\n' 'mc_setbmc 0x20' 'mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr' 'mc_enable 0x20' >commands
usr/bin/ipmi_sim -n -c lan.conf -f commands -s state >/dev/null 2>&1 & SIM=$!
sleep 2
usr/sbin/ipmipower --version | head -1
for line in 'password sec#ret' 'password "sec#ret"' 'password sec\#ret'; do
    printf 'username admin\n%s\n' "$line" >freeipmi.conf; chmod 600 freeipmi.conf
    said=$(usr/sbin/ipmipower --config-file=freeipmi.conf -h "127.0.0.1:$PORT" -D LAN_2_0 -W opensesspriv --stat 2>&1) || true
    echo "$line -> $said"
done | tee out
diff - out <<'P'
password sec#ret -> 127.0.0.1: password invalid
password "sec#ret" -> Config File Error: quotation marks used improperly on line 2
password sec\#ret -> 127.0.0.1: on
P
echo "as observed: a # ends an unquoted password, and makes a quoted one an error"
