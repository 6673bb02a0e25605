//! Whose clock is wrong.

use super::words::time;
use super::{Checked, Finding, Severity};

/// Less than this is nobody's trouble, in nanoseconds.
const NOTED_NS: i128 = 50_000_000;
/// From here on make, NFS and logs go wrong.
const HARMFUL_NS: i128 = 1_000_000_000;
/// Credentials (munge) are refused.
const FATAL_NS: i128 = 300_000_000_000;

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    for (name, ahead) in offsets(checked) {
        if ahead.abs() < NOTED_NS {
            continue;
        }
        let way = if ahead > 0 { "fast" } else { "late" };
        let severity = match ahead.abs() {
            ns if ns >= FATAL_NS => Severity::Fatal,
            ns if ns >= HARMFUL_NS => Severity::Slows,
            _ => Severity::Note,
        };
        findings.push(Finding::of(
            "clock",
            severity,
            &name,
            format!("{name}'s clock is {} {way}", time(ahead)),
            format!("on {name}: sudo timedatectl set-ntp true"),
        ));
    }
}

/// How far each host's clock is ahead of the clock of most, in nanoseconds.
///
/// Differences are counted from the first host; the median of all is what is right. With two hosts
/// nobody can tell who is wrong: the first one is believed, as it is where the user sits.
fn offsets(checked: &Checked) -> Vec<(String, i128)> {
    let names: Vec<&str> = checked.hosts.iter().map(|host| &host.name[..]).collect();
    let mut ahead: Vec<Option<i128>> = vec![None; names.len()];
    // Each connected set of pairs has its own first host.
    let mut found = Vec::new();
    for first in 0..names.len() {
        if ahead[first].is_some() {
            continue;
        }
        ahead[first] = Some(0);
        let (mut reached, mut at) = (vec![first], 0);
        while let Some(&from) = reached.get(at) {
            at += 1;
            for pair in &checked.pairs {
                let Some(clock) = pair.clock.get() else { continue };
                let difference = i128::from(clock.ahead_ns);
                let (to, difference) = match names[from] {
                    name if name == pair.a => (&pair.b, difference),
                    name if name == pair.b => (&pair.a, -difference),
                    _ => continue,
                };
                let Some(to) = names.iter().position(|name| name == to) else { continue };
                if ahead[to].is_none() {
                    ahead[to] = ahead[from].map(|own| own + difference);
                    reached.push(to);
                }
            }
        }
        let mut all: Vec<i128> = reached.iter().filter_map(|host| ahead[*host]).collect();
        all.sort_unstable();
        let right = if all.len() == 2 { 0 } else { all[(all.len() - 1) / 2] };
        found.extend(
            reached
                .iter()
                .map(|host| (names[*host].to_owned(), ahead[*host].unwrap_or(right) - right)),
        );
    }
    found
}
