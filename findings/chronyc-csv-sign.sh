#!/usr/bin/env bash
# What: `chronyc -c tracking` of a clock that is slow, and of one that is fast; Debian chrony 4.3-2+deb12u3.
# Guess: a positive number where the text has 'fast': the manual says of the last offset 'a positive value indicates the
#   local time was ahead', and the next columns follow it.
# Happens: the fifth column, 'System time', is 2.0 for a clock that is 2 s slow, and -2.0 for one that is fast. The
#   eighth, 'Frequency', has the other sign: -200 is slow. The manual does not say what a sign means in this format.
# Who meets it: scripts that put the offsets of all PCs into a database, and correct the time stamps of measurements or
#   traces with them: each is corrected in the wrong direction, and the error is twice the offset.
# Instead: local time + the fifth column = NTP's time. Or the words of the text.
set -euo pipefail
if [ -z "${T:-}" ]; then
    T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
    cd "$T"
    packages=$(apt-get -s --no-install-recommends install chrony=4.3-2+deb12u3 |
        awk '/^Inst/ && !/^Inst chrony / {print $2}')
    # shellcheck disable=SC2086
    apt-get download -q chrony=4.3-2+deb12u3 libfaketime=0.9.10-2.1 $packages >/dev/null 2>&1
    for deb in *.deb; do dpkg -x "$deb" .; done
    cd "$OLDPWD"
    T=$T unshare -rn --mount --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$T"
ip link set lo up
chmod 770 "$T"
libraries=$T/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries
chrony() { # name, how the clock of the process is wrong
    printf '%s\n' "pidfile $T/$1.pid" "bindcmdaddress $T/$1.socket" 'cmdport 0' >>"$1.conf"
    LD_PRELOAD=$libraries/faketime/libfaketime.so.1 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME="$2" \
        usr/sbin/chronyd -U -x -d -u root -f "$T/$1.conf" >"$1.log" 2>&1 &
}
for clock in "fast=-2s x0.9998" "slow=+2s x1.0002"; do       # the server's clock is wrong, the client's is the PC's
    printf '%s\n' 'local stratum 8' 'port 12300' 'bindaddress 127.0.0.1' 'allow 127.0.0.1' >server.conf
    printf '%s\n' 'server 127.0.0.1 port 12300 minpoll -4 maxpoll -4 iburst' 'port 0' >client.conf
    chrony server "${clock#*=}"; server=$!
    chrony client "+0"; client=$!
    sleep 12
    echo "a clock that is ${clock%%=*}"
    usr/bin/chronyc -h "$T/client.socket" tracking | sed -nE 's/^(System time|Frequency)/  text: &/p' |
        awk '{for (i = 1; i <= NF; i++) if ($i ~ /^[0-9.]+$/) $i = sprintf("%.0f", $i / 2) * 2; print}'
    usr/bin/chronyc -h "$T/client.socket" -c tracking |
        awk -F, '{printf "CSV: system time %.0f, frequency %.0f\n", $5, sprintf("%.0f", $8 / 2) * 2}'
    kill $client $server; wait $client $server || true
done | tee out
diff - out <<'P'
a clock that is fast
text: System time : 2 seconds fast of NTP time
text: Frequency : 200 ppm fast
CSV: system time -2, frequency 200
a clock that is slow
text: System time : 2 seconds slow of NTP time
text: Frequency : 200 ppm slow
CSV: system time 2, frequency -200
P
echo "as observed: a positive offset is a slow clock, and a positive frequency a fast one"
