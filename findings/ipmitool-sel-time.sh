#!/usr/bin/env bash
# What: `ipmitool sel time set now` where the time zone is not UTC; Debian ipmitool 1.8.19-4+deb12u2, freeipmi-tools 1.6.10-1+b1, BMC:
#   ipmi_sim of openipmi 2.0.33-1+b1.
# Guess: the BMC's clock is then right, in UTC (or in local time, as the specification of IPMI may be read).
# Happens: in Tokyo (UTC+9) the BMC gets the time of 9 hours *before* UTC, in Phoenix (UTC-7) one of 7 hours after: the zone is
#   taken away twice. `ipmitool sel time get` puts it back once and shows UTC's digits with the letters JST. -Z changes nothing
#   about setting. FreeIPMI's `bmc-device --set-sel-time=now` sets UTC, and its ipmi-sel then shows events at the right UTC time.
# Who meets it: whoever sets the clocks of all BMCs by `ipmitool ... sel time set now`, a line of most cheat sheets, and later lays
#   the event log beside the logs of the host: a power failure at noon is found at 12 - 9 = 3 o'clock in another tool.
# Instead: `TZ=UTC ipmitool ... sel time set now`, or bmc-device; and read with TZ=UTC too.
set -euo pipefail
T=$(mktemp -d); SIM=; trap '[ -z "$SIM" ] || kill "$SIM"; rm -rf "$T"' EXIT
cd "$T"
apt-get download -q ipmitool=1.8.19-4+deb12u2 freeipmi-tools=1.6.10-1+b1 libfreeipmi17=1.6.10-1+b1 libipmiconsole2=1.6.10-1+b1 libipmidetect0=1.6.10-1+b1 \
    openipmi=2.0.33-1+b1 libopenipmi0=2.0.33-1+b1 libreadline8 >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu HOME=$T
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
user 2 true "admin" "secret" admin 10 none md2 md5 straight
C
printf '%s\n' 'mc_setbmc 0x20' 'mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr' 'sel_enable 0x20 100 0x0a' 'mc_enable 0x20' >commands
usr/bin/ipmi_sim -n -c lan.conf -f commands -s state >/dev/null 2>&1 & SIM=$!
sleep 2
ipmitool() { usr/bin/ipmitool -I lanplus -C 3 -H 127.0.0.1 -p "$PORT" -U admin -P secret "$@" 2>/dev/null; }
bmc_device() { usr/sbin/bmc-device -h "127.0.0.1:$PORT" -D LAN_2_0 -W opensesspriv -u admin -p secret "$@"; }
hours() { # the clock of the BMC (Get SEL Time, seconds since 1970) against UTC, in whole hours
    local bytes; read -ra bytes < <(ipmitool raw 0x0a 0x48)
    python3 -c 'import sys, time; print(f"{round((int(sys.argv[1], 16) - time.time()) / 3600):+d} h")' "${bytes[3]}${bytes[2]}${bytes[1]}${bytes[0]}"
}
shown() { # the digits that `sel time get` shows, against UTC's, and the zone that it names
    ipmitool sel time get | python3 -c 'import calendar, time; digits, zone = input().rsplit(" ", 1)
seconds = calendar.timegm(time.strptime(digits, "%x %X")) - time.time(); print(f"{round(seconds / 3600):+d} h, called {zone}")'
}
usr/bin/ipmitool -V
for zone in UTC Asia/Tokyo America/Phoenix; do
    export TZ=$zone
    ipmitool sel time set now >/dev/null; echo "$zone, ipmitool: the BMC's clock is $(hours)"
    echo "$zone, time get: $(shown)"
    ipmitool -Z sel time set now >/dev/null; echo "$zone, ipmitool -Z: $(hours)"
    bmc_device --set-sel-time=now; echo "$zone, bmc-device: $(hours)"
done | tee out
diff - out <<'P'
UTC, ipmitool: the BMC's clock is +0 h
UTC, time get: +0 h, called UTC
UTC, ipmitool -Z: +0 h
UTC, bmc-device: +0 h
Asia/Tokyo, ipmitool: the BMC's clock is -9 h
Asia/Tokyo, time get: +0 h, called JST
Asia/Tokyo, ipmitool -Z: -9 h
Asia/Tokyo, bmc-device: +0 h
America/Phoenix, ipmitool: the BMC's clock is +7 h
America/Phoenix, time get: +0 h, called MST
America/Phoenix, ipmitool -Z: +7 h
America/Phoenix, bmc-device: +0 h
P
echo "as observed: ipmitool sets the BMC's clock wrong by the time zone, away from UTC"
