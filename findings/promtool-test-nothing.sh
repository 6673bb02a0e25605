#!/usr/bin/env bash
# What: `promtool test rules` with an alert or a file of rules that is not there; Debian prometheus 2.42.0+ds-5+deb12u1.
# Guess: FAILED: the test names an alert, or a file, that does not exist.
# Happens: an alert whose name is misspelled (or was changed) in the test has no alerts, so a test that expects none is a
#   SUCCESS, whatever the rule does. A file of rules that is not there is a WARNING and, where no alerts are expected,
#   a SUCCESS with status 0.
# Who meets it: tests that an alert is quiet (a PC that is reserved, a short load), after alerts or files were renamed.
# Instead: for each alert also a test where it fires; and `grep WARNING` of the output.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q prometheus=2.42.0+ds-5+deb12u1 >/dev/null 2>&1
dpkg -x prometheus_*.deb .
cat >rules.yml <<'E'
groups:
- name: pcs
  rules:
  - alert: HostDown
    expr: up == 0
E
try() { # file of rules, alert, what is expected
    cat >test.yml <<E
rule_files: [$1]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:
  - {series: 'up{instance="pc1"}', values: '0x30'}
  alert_rule_test:
  - {eval_time: 10m, alertname: $2, exp_alerts: [${3:-}]}
E
    expected=none; [ $# -lt 3 ] || expected=one
    status=0; usr/bin/promtool test rules test.yml >words 2>&1 || status=$?
    echo "$1 $2, $expected expected: status $status, $(grep -o -e SUCCESS -e FAILED -e WARNING words | xargs)"
}
{
    try rules.yml HostDown '{exp_labels: {instance: pc1}}'
    try rules.yml HostDown
    try rules.yml HostDwon
    try rule.yml HostDown
    try rule.yml HostDown '{exp_labels: {instance: pc1}}'
} | tee out
diff - out <<'E'
rules.yml HostDown, one expected: status 0, SUCCESS
rules.yml HostDown, none expected: status 1, FAILED
rules.yml HostDwon, none expected: status 0, SUCCESS
rule.yml HostDown, none expected: status 0, WARNING SUCCESS
rule.yml HostDown, one expected: status 1, WARNING FAILED
E
echo "as observed: tests of an alert, or of rules, that are not there are passed"
