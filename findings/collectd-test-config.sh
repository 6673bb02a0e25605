#!/usr/bin/env bash
# What: `collectd -t`, the test of a configuration; Debian collectd-core 5.12.0-14.
# Guess: 0 where it is good, and an error where it is not: 'The program immediately exits after parsing the config file.
#   A return code not equal to zero indicates an error.'
# Happens: it exits with 0 and reads nothing: a file with an error of syntax, a plugin or option that there is not, and
#   a file that is not there are all good.
# Who meets it: who copies a configuration to all PCs and tests it before collectd is started again, as its unit does
#   with ExecStartPre, which never fails: the next start fails on all of them, and the measurements end.
# Instead: `collectd -T`, which reads the file, calls each plugin once, and has the right status.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
packages=$(apt-get -s --no-install-recommends install collectd-core=5.12.0-14 |
    awk '/^Inst/ && !/^Inst collectd-core / {print $2}')
# shellcheck disable=SC2086
apt-get download -q collectd-core=5.12.0-14 $packages >/dev/null 2>&1
for deb in *.deb; do dpkg -x "$deb" .; done
export LD_LIBRARY_PATH=$T/usr/lib/x86_64-linux-gnu:$T/lib/x86_64-linux-gnu
cat >start <<P
Hostname "pc1"
BaseDir "$T"
PIDFile "$T/pid"
PluginDir "$T/usr/lib/collectd"
TypesDB "$T/usr/share/collectd/types.db"
P
test_both() { # name, lines
    cat start - <<<"$2" >file
    for option in -t -T; do
        status=0; timeout 20 usr/sbin/collectd $option -C "${3:-$T/file}" >log 2>&1 || status=$?
        printf '%s: status %s\n' "$1, $option" $status
    done
}
{
    test_both "good" 'LoadPlugin load'
    test_both "syntax" '<Plugin load>'
    test_both "no such plugin" 'LoadPlugin laod'
    test_both "no such file" '' "$T/nosuch"
} | tee out
diff - out <<'P'
good, -t: status 0
good, -T: status 0
syntax, -t: status 0
syntax, -T: status 1
no such plugin, -t: status 0
no such plugin, -T: status 1
no such file, -t: status 0
no such file, -T: status 1
P
echo "as observed: collectd -t reads nothing and exits with 0"
