#!/usr/bin/env bash
# What: the date of manufacture in a board's FRU data, by ipmi-fru and by ipmitool; Debian freeipmi-tools 1.6.10-1+b1, ipmitool
#   1.8.19-4+deb12u2, BMC: ipmi_sim of openipmi 2.0.33-1+b1.
# Guess: one date; at most one of them shows the stored minutes since 1996 as local time (as ipmi-fru's manual says they are), and the
#   other takes them for UTC and converts.
# Happens: stored is 1 July 2026, 12:00. In Tokyo (UTC+9) ipmitool says 21:00 JST, which is 12:00 UTC; ipmi-fru says 03:00, which is
#   neither: it takes the zone away. They are 18 hours apart, and often the *day* differs, between the tools
#   and between two administrators' PCs. --utc-to-localtime makes it 12:00, --localtime-to-utc 18:00 of the day before.
# Who meets it: inventories that are made by one tool and checked by the other, or on hosts with different time zones: each board
#   has changed; lists of boards by date for a recall or a warranty.
# Instead: `TZ=UTC` before either of them.
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
python3 - <<'P'  # a FRU with a board area: language, minutes since 1996, five texts, end, padding, checksums
import datetime
minutes = (datetime.datetime(2026, 7, 1, 12) - datetime.datetime(1996, 1, 1)) // datetime.timedelta(minutes=1)
checked = lambda data: data + bytes([-sum(data) % 256])
body = bytes([25]) + minutes.to_bytes(3, "little")
for text in ("Maker", "Board", "S123", "P123", ""):
    body += bytes([0xC0 | len(text)]) + text.encode()
body += b"\xc1"
length = -(-(len(body) + 3) // 8)
fru = checked(bytes([1, 0, 0, 1, 0, 0, 0])) + checked((bytes([1, length]) + body).ljust(8 * length - 1, b"\0"))
open("fru", "wb").write(fru)
open("commands", "w").write("\n".join(["mc_setbmc 0x20", "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr",
    f"mc_add_fru_data 0x20 0 {len(fru)} data " + " ".join(map(hex, fru)), "mc_enable 0x20", ""]))
P
usr/bin/ipmi_sim -n -c lan.conf -f commands -s state >/dev/null 2>&1 & SIM=$!
sleep 2
usr/bin/ipmitool -V; usr/sbin/ipmi-fru --version | head -n 1
ipmitool() { usr/bin/ipmitool -I lanplus -C 3 -H 127.0.0.1 -p "$PORT" -U admin -P secret fru print 0 2>/dev/null | sed -n 's/.*Mfg Date *: //p'; }
ipmi_fru() { usr/sbin/ipmi-fru --fru-file=fru "$@" | sed -n 's/.*Date\/Time: //p'; }
for zone in UTC Asia/Tokyo America/Phoenix; do
    export TZ=$zone
    echo "$zone: ipmitool $(ipmitool); ipmi-fru $(ipmi_fru)"
done | tee out
for option in --utc-to-localtime --localtime-to-utc; do echo "Asia/Tokyo: ipmi-fru $option $(TZ=Asia/Tokyo ipmi_fru $option)"; done | tee -a out
diff - out <<'P'
UTC: ipmitool Wed Jul  1 12:00:00 2026 UTC; ipmi-fru 07/01/26 - 12:00:00
Asia/Tokyo: ipmitool Wed Jul  1 21:00:00 2026 JST; ipmi-fru 07/01/26 - 03:00:00
America/Phoenix: ipmitool Wed Jul  1 05:00:00 2026 MST; ipmi-fru 07/01/26 - 19:00:00
Asia/Tokyo: ipmi-fru --utc-to-localtime 07/01/26 - 12:00:00
Asia/Tokyo: ipmi-fru --localtime-to-utc 06/30/26 - 18:00:00
P
echo "as observed: ipmi-fru moves the date by the time zone, the wrong way"
