//! Which pairs are slower than the others, and whether a host is to blame.
//!
//! What is usual is the median over the hosts of each host's best pair: one bad host of four spoils
//! half of all pairs, but only its own best one. A value stands out that is off by five times the
//! median absolute deviation of those, and by a tenth (of a rate) or a quarter (of a latency) at least.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{figure, listed, verb};
use super::{Checked, Finding, Severity};
use crate::probe::PairResult;

/// In so many deviations; 1.4826 of them are a standard deviation of noise.
const DEVIATIONS: f64 = 5.0;
/// A switch that gives all pairs at once less than this share of what its ports give is too slow.
const TOGETHER_SHARE_MIN: f64 = 0.7;
/// A pair that is alone reaches this share of its cable's speed, headers and all.
const WIRE_SHARE_MIN: f64 = 0.7;

/// A pair's value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) a: &'a str,
    pub(super) b: &'a str,
    pub(super) value: f64,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// The slower direction's stream, in 10^6 bytes a second.
    Rate,
    /// Half a round trip over the link, in microseconds.
    Latency,
}

impl Measure {
    /// The value of each pair that has one.
    pub(super) fn of(self, pairs: &[PairResult]) -> Vec<Value<'_>> {
        let value = |pair: &PairResult| match self {
            Self::Rate => {
                let (there, back) =
                    (pair.a_to_b.stream_mb_s.get()?, pair.b_to_a.stream_mb_s.get()?);
                Some(there.min(*back))
            }
            Self::Latency => Some(pair.link.get().or(pair.plain.get())?.p50_us),
        };
        pairs
            .iter()
            .filter_map(|pair| Some(Value { a: &pair.a, b: &pair.b, value: value(pair)? }))
            .filter(|value| value.value.is_finite())
            .collect()
    }

    fn is_better(self, one: f64, other: f64) -> bool {
        match self {
            Self::Rate => one > other,
            Self::Latency => one < other,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Rate => "MB/s",
            Self::Latency => "us",
        }
    }
}

/// What is usual, and from where on a value stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usual {
    pub(super) value: f64,
    pub(super) limit: f64,
}

/// What is usual among these.
pub(super) fn usual(measure: Measure, values: &[Value<'_>]) -> Option<Usual> {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for Value { a, b, value } in values {
        for host in [a, b] {
            let known = best.entry(host).or_insert(*value);
            if measure.is_better(*value, *known) {
                *known = *value;
            }
        }
    }
    let mut best: Vec<f64> = best.into_values().collect();
    best.sort_by(f64::total_cmp);
    if measure == Measure::Rate {
        // The better ones stand first, so that of two middle ones the better counts.
        best.reverse();
    }
    let value = *best.get(best.len().checked_sub(1)? / 2)?;
    let mut off: Vec<f64> = best.iter().map(|other| (other - value).abs()).collect();
    off.sort_by(f64::total_cmp);
    let spread = DEVIATIONS * 1.4826 * off[(off.len() - 1) / 2];
    let limit = match measure {
        Measure::Rate => value - spread.max(value / 10.0),
        Measure::Latency => value + spread.max(value / 4.0).max(2.0),
    };
    Some(Usual { value, limit })
}

/// Who is bad: hosts all of whose pairs are, then the pairs that no such host explains.
pub(super) fn blamed<'a>(
    measure: Measure,
    values: &[Value<'a>],
    usual: Usual,
) -> (Vec<&'a str>, Vec<Value<'a>>) {
    let is_bad = |value: f64| measure.is_better(usual.limit, value);
    let names: BTreeSet<&str> = values.iter().flat_map(|value| [value.a, value.b]).collect();
    let of = |host: &str| -> Vec<Value<'a>> {
        values.iter().filter(|value| value.a == host || value.b == host).copied().collect()
    };
    let all_bad = |host: &&str| {
        let own = of(host);
        own.len() > 1 && own.iter().all(|value| is_bad(value.value))
    };
    let hosts: Vec<&str> = names.into_iter().filter(all_bad).collect();
    let is_explained = |value: &Value<'_>| hosts.contains(&value.a) || hosts.contains(&value.b);
    let pairs = values.iter().filter(|value| is_bad(value.value) && !is_explained(value));
    (hosts.clone(), pairs.copied().collect())
}

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    for measure in [Measure::Rate, Measure::Latency] {
        let values = measure.of(&checked.pairs);
        if let Some(usual) = usual(measure, &values) {
            compare(measure, &values, usual, findings);
        }
    }
    wire(checked, findings);
    together(checked, findings);
}

fn compare(measure: Measure, values: &[Value<'_>], usual: Usual, findings: &mut Vec<Finding>) {
    let (code, unit) = match measure {
        Measure::Rate => ("rate", measure.unit()),
        Measure::Latency => ("latency", measure.unit()),
    };
    let (hosts, pairs) = blamed(measure, values, usual);
    let others = figure(usual.value);
    for host in hosts {
        let own = values.iter().filter(|value| value.a == host || value.b == host);
        let best = own
            .map(|value| value.value)
            .reduce(|one, other| if measure.is_better(one, other) { one } else { other });
        let best = figure(best.unwrap_or(f64::NAN));
        let sentence = match measure {
            Measure::Rate => {
                format!("all pairs of {host} reach {best} {unit} at most, the others {others}")
            }
            Measure::Latency => {
                format!("all pairs of {host} take {best} {unit} at least, the others {others}")
            }
        };
        let fix = match measure {
            Measure::Rate => format!("change the cable of {host}, then its port at the switch"),
            Measure::Latency => {
                format!(
                    "see what is said of {host}'s card and processors, and end what else runs there"
                )
            }
        };
        findings.push(Finding::of(code, Severity::Slows, host, sentence, fix));
    }
    for Value { a, b, value } in pairs {
        let verb = if measure == Measure::Rate { "reach" } else { "take" };
        findings.push(Finding::between(
            code,
            Severity::Slows,
            [a, b],
            format!("{a}-{b} {verb} {} {unit}, the others {others}", figure(value)),
            format!("wiglaf check -w {a},{b}, then look at what lies between the two"),
        ));
    }
}

/// Pairs that are far below their cables' speed, also where there are no others to compare with.
fn wire(checked: &Checked, findings: &mut Vec<Finding>) {
    let speed = |name: &str| {
        let host = checked.hosts.iter().find(|host| host.name == name)?;
        let interface = super::hosts::data_interface(&checked.expected, host, host.facts.get()?)?;
        // What veth and virtio say of their speed is made up.
        let is_made_up = interface.is_virtual || interface.driver.as_deref() == Some("virtio_net");
        interface.card.speed_mbit.get().copied().filter(|_| !is_made_up)
    };
    for Value { a, b, value } in Measure::Rate.of(&checked.pairs) {
        let Some(mbit) = speed(a).and_then(|own| Some(own.min(speed(b)?))) else { continue };
        let wire = f64::from(mbit) / 8.0;
        let is_named = |finding: &Finding| {
            finding.code == "rate" && finding.hosts.iter().any(|host| host == a || host == b)
        };
        if value >= wire * WIRE_SHARE_MIN || findings.iter().any(is_named) {
            continue;
        }
        findings.push(Finding::between(
            "rate",
            Severity::Slows,
            [a, b],
            format!(
                "{a}-{b} reach {} MB/s of the {} that {mbit} Mbit/s are",
                figure(value),
                figure(wire)
            ),
            format!("look for other load on {a} and {b}: uptime; then wiglaf check -w {a},{b}"),
        ));
    }
}

/// What each host sends while all pairs stream, beside what it sends to one alone.
fn together(checked: &Checked, findings: &mut Vec<Finding>) {
    let alone = Measure::Rate.of(&checked.pairs);
    let Some(alone) = usual(Measure::Rate, &alone) else { return };
    let mut sent: BTreeMap<&str, f64> = BTreeMap::new();
    for pair in &checked.together {
        for (from, way) in [(&pair.a, &pair.a_to_b), (&pair.b, &pair.b_to_a)] {
            let rate = way.stream_both_mb_s.get().or(way.stream_mb_s.get());
            *sent.entry(from).or_insert(0.0) += rate.copied().unwrap_or(0.0);
        }
    }
    // Senders that share processors measure these, and not the switch.
    let machines: BTreeSet<&str> =
        checked.known().map(|(_, facts)| &facts.host[..]).filter(|host| !host.is_empty()).collect();
    if sent.len() < 3 || machines.len() < sent.len() {
        return;
    }
    let mean = sent.values().sum::<f64>() / sent.len() as f64;
    if mean < alone.value * TOGETHER_SHARE_MIN {
        let hosts: Vec<&str> = sent.keys().copied().collect();
        findings.push(Finding::between(
            "switch",
            Severity::Slows,
            hosts.iter().copied(),
            format!(
                "all at once {} {} {} MB/s each, one pair alone {}: the switch is the bound",
                listed(hosts.iter().copied()),
                verb(hosts.len(), "sends", "send"),
                figure(mean),
                figure(alone.value)
            ),
            "put these hosts on one switch, or use a faster one",
        ));
    }
}
