//! What has become worse since the last check.

use super::blame::{Measure, Value};
use super::hosts::data_interface;
use super::words::{day, figure};
use super::{Checked, Finding, Severity};

/// A rate that has fallen to this share has become worse.
const RATE_SHARE: f64 = 0.85;
/// A latency that has risen to this multiple has, too, if it is by some microseconds.
const LATENCY_SHARE: f64 = 1.3;
const LATENCY_MIN_US: f64 = 3.0;

pub(super) fn judge(checked: &Checked, previous: &Checked, findings: &mut Vec<Finding>) {
    let on = day(previous.at_s);
    for measure in [Measure::Rate, Measure::Latency] {
        let before = measure.of(&previous.pairs);
        for Value { a, b, value } in measure.of(&checked.pairs) {
            let is_it = |old: &&Value<'_>| (old.a == a && old.b == b) || (old.a == b && old.b == a);
            let Some(old) = before.iter().find(is_it).map(|old| old.value) else { continue };
            let (is_worse, unit) = match measure {
                Measure::Rate => (value < old * RATE_SHARE, "MB/s"),
                Measure::Latency => {
                    (value > old * LATENCY_SHARE && value > old + LATENCY_MIN_US, "us")
                }
            };
            if is_worse {
                findings.push(Finding::between(
                    "history",
                    Severity::Slows,
                    [a, b],
                    format!("{a}-{b} was {} {unit} on {on}, now {}", figure(old), figure(value)),
                    format!("look for what has changed since {on}: on {a} and {b}: last -x | head"),
                ));
            }
        }
    }
    for (host, facts) in checked.known() {
        let Some(old) = previous.facts(&host.name) else { continue };
        let interface = |checked: &Checked, facts| {
            let interface = data_interface(&checked.expected, host, facts)?;
            let card = &interface.card;
            Some((interface.mtu, interface.driver.clone(), card.speed_mbit.get().copied()))
        };
        let (now, before) = (interface(checked, facts), interface(previous, old));
        let (now, before) = (now.unwrap_or_default(), before.unwrap_or_default());
        let shown = |speed: Option<u32>| speed.map_or("no".to_owned(), |speed| speed.to_string());
        let changes = [
            ("kernel", old.versions.kernel.clone(), facts.versions.kernel.clone()),
            ("MTU", before.0.to_string(), now.0.to_string()),
            ("driver", before.1.unwrap_or_default(), now.1.unwrap_or_default()),
            ("cable's speed in Mbit/s", shown(before.2), shown(now.2)),
        ];
        let name = &host.name;
        for (what, before, now) in changes {
            if before != now && !before.is_empty() {
                findings.push(Finding::of(
                    "changed",
                    Severity::Note,
                    name,
                    format!("{name}'s {what} was {before} on {on}, now {now}"),
                    "nothing, if you know why",
                ));
            }
        }
    }
}
