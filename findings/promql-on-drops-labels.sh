#!/usr/bin/env bash
# What: an alert that compares two metrics with `on (instance)`; Debian prometheus 2.42.0+ds-5+deb12u1 (promtool).
# Guess: a comparison filters: what is left are the samples of the left side as they are, with all their labels, as without `on`.
# Happens: labels outside of `on (...)` are gone from the result, as for arithmetic. `{{ $labels.host }}` in the text of the
#   alert is empty, and a route of Alertmanager by that label does not match. `promtool check rules` finds nothing. `and on (...)`
#   keeps the labels.
# Who meets it: whoever adds a label `host` to targets, because instances are addresses, and writes mail by it: the mail
#   says ' is slower than it was' and not which host.
# Instead: the same labels on both sides without `on`, or `a and on (instance) (a > on (instance) b)`.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
cd "$T"
apt-get download -q prometheus=2.42.0+ds-5+deb12u1 >/dev/null 2>&1
dpkg -x ./*.deb .
usr/bin/promtool --version 2>&1 | head -n 1
cat >rules.yml <<'P'
groups:
  - name: g
    rules:
      - { alert: On, expr: 'speed < on (instance) limit', annotations: { text: '{{ $labels.host }} is slow' } }
      - { alert: And, expr: 'speed and on (instance) (speed < on (instance) limit)', annotations: { text: '{{ $labels.host }} is slow' } }
P
cat >test.yml <<'P'
rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
      - { series: 'speed{instance="10.0.0.1:9100",host="pc1"}', values: '10x5' }
      - { series: 'limit{instance="10.0.0.1:9100",source="file"}', values: '100x5' }
    alert_rule_test:
      - alertname: On
        eval_time: 3m
        exp_alerts: [ { exp_labels: { instance: '10.0.0.1:9100' }, exp_annotations: { text: ' is slow' } } ]
      - alertname: And
        eval_time: 3m
        exp_alerts: [ { exp_labels: { instance: '10.0.0.1:9100', host: pc1 }, exp_annotations: { text: 'pc1 is slow' } } ]
P
usr/bin/promtool check rules rules.yml
usr/bin/promtool test rules test.yml
echo "as observed: a comparison with on() loses the other labels of its left side"
