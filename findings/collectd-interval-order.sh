#!/usr/bin/env bash
# What: the global option `Interval` of collectd, below the plugins; Debian collectd-core 5.12.0-14.
# Guess: it is for all plugins, wherever it is: 'Configures the interval in which to query the read plugins.'
# Happens: plugins that are loaded above it keep 10 s, and those below it have the new one. Nothing is logged. Other
#   global options, such as Hostname, count for all plugins. A misspelled `Intervall` is not logged either.
# Who meets it: who puts `Interval 1` into a file of collectd.conf.d, which Debian's collectd.conf includes as its last
#   line: no plugin of the main file follows it. A short job has one sample or none, and peaks of a second are missed.
# Instead: Interval in the first lines of collectd.conf, or <LoadPlugin NAME> Interval 1 </LoadPlugin>.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install collectd-core=5.12.0-14 |
    awk '/^Inst/ && !/^Inst collectd-core / {print $2}')
# shellcheck disable=SC2086
apt-get download -q collectd-core=5.12.0-14 $packages >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
cat >collectd.conf <<P
BaseDir "$T"
PIDFile "$T/pid"
PluginDir "$T/usr/lib/collectd"
TypesDB "$T/usr/share/collectd/types.db"
LoadPlugin logfile
<Plugin logfile>
    File "$T/log"
    LogLevel info
</Plugin>
LoadPlugin csv
<Plugin csv>
    DataDir "$T/csv"
</Plugin>
LoadPlugin uptime
Include "$T/conf.d/*.conf"
P
mkdir conf.d
printf '%s\n' 'Hostname pc1' 'Interval 2' 'LoadPlugin load' 'Intervall 5' >conf.d/interval.conf
timeout 25 usr/sbin/collectd -f -C "$T/collectd.conf" 2>/dev/null || true
for plugin in uptime load; do
    awk -F, -v name=$plugin '$1 + 0 {if (last) {sum += $1 - last; n++}; last = $1}
        END {printf "%s of pc1: every %.0f s\n", name, sum / n}' csv/pc1/$plugin/*
done | tee out
! grep -iE 'interval|warn|error' log
diff - out <<'P'
uptime of pc1: every 10 s
load of pc1: every 2 s
P
echo "as observed: Interval does not count for the plugins above it"
