//! What saves power, sleeps, updates itself or waits on a host, and what that costs.

use super::hosts::data_interface;
use super::words::{figure, listed, time};
use super::{Checked, Finding, Host, Severity};
use crate::facts::{Facts, Interface};
use crate::known::Known;

/// A card that keeps arrivals to itself for longer shows in round trips, in microseconds.
const RX_USECS_MAX: u32 = 10;
/// A processor that takes longer to wake shows in them, too.
const IDLE_LATENCY_MAX_US: u32 = 20;
/// Damaged frames among so many good ones are a bad cable, not chance.
const CRC_ERRORS_SHARE: u64 = 1_000_000;
/// A round trip after a pause that is longer by this much is worth a word, in microseconds.
const PAUSE_COST_MIN_US: f64 = 5.0;

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    for (host, facts) in checked.known() {
        let cost = pause_cost(checked, &host.name);
        if let Some(interface) = data_interface(&checked.expected, host, facts) {
            card(host, facts, interface, cost, findings);
        }
        let awake = awake_gain(checked, &host.name);
        processors(host, facts, (cost, awake), findings);
        sleep(host, facts, findings);
    }
    services(checked, findings);
    helper(checked, findings);
}

/// How much longer a half round trip takes after a pause, in microseconds: the least over the
/// host's pairs, as a pair's other host may be the one that sleeps.
fn pause_cost(checked: &Checked, name: &str) -> Option<f64> {
    let pairs = checked.pairs.iter().filter(|pair| pair.a == name || pair.b == name);
    let costs =
        pairs.filter_map(|pair| Some(pair.after_pause.get()?.p50_us - pair.link.get()?.p50_us));
    costs.min_by(f64::total_cmp)
}

/// How much shorter that is while processors are kept awake; the least, as above.
fn awake_gain(checked: &Checked, name: &str) -> Option<f64> {
    let pairs = checked.pairs.iter().filter(|pair| pair.a == name || pair.b == name);
    let gains = pairs.filter_map(|pair| {
        Some(pair.after_pause.get()?.p50_us - pair.after_pause_awake.get()?.p50_us)
    });
    gains.min_by(f64::total_cmp)
}

/// What was measured, as the end of a sentence.
fn measured(cost: Option<f64>) -> String {
    match cost {
        Some(cost) if cost >= PAUSE_COST_MIN_US => {
            format!(": a message takes {} us more after a pause", figure(cost))
        }
        Some(_) => ", which was not seen to cost anything".to_owned(),
        None => String::new(),
    }
}

/// What is not seen to cost anything is a note.
fn severity(cost: Option<f64>) -> Severity {
    if cost.is_some_and(|cost| cost >= PAUSE_COST_MIN_US) {
        Severity::Slows
    } else {
        Severity::Note
    }
}

/// What to type: the helper does it where it does so for this user.
fn tuning(host: &Host, facts: &Facts, is_for_jobs: bool, by_hand: String) -> String {
    let name = &host.name;
    match facts.helper.get().is_some_and(|helper| helper.tunes) {
        true if is_for_jobs => format!("wiglaf tune -w {name}, or wiglaf run --tune for a job"),
        true => format!("wiglaf tune -w {name}"),
        false => by_hand,
    }
}

fn card(
    host: &Host,
    facts: &Facts,
    interface: &Interface,
    cost: Option<f64>,
    findings: &mut Vec<Finding>,
) {
    let (name, card) = (&host.name, &interface.name);
    if interface.card.eee.get().is_some_and(|eee| eee.active) {
        findings.push(Finding::of(
            "eee",
            severity(cost),
            name,
            format!("Energy Efficient Ethernet is on at {name}'s {card}{}", measured(cost)),
            // It takes the carrier away for a moment, so `run --tune` leaves it.
            tuning(host, facts, false, format!("on {name}: sudo ethtool --set-eee {card} eee off")),
        ));
    }
    let coalesce = interface.card.coalesce.get();
    let delay = coalesce.and_then(|coalesce| coalesce.rx_usecs);
    if let Some(delay) = delay.filter(|delay| *delay > RX_USECS_MAX) {
        // A driver that has no such setting refuses the whole command.
        let adapts = coalesce.and_then(|coalesce| coalesce.adaptive_rx) == Some(true);
        let adaptive = if adapts { " adaptive-rx off" } else { "" };
        findings.push(Finding::of(
            "coalesce",
            Severity::Slows,
            name,
            format!("{name}'s {card} keeps arrivals to itself for up to {delay} us"),
            tuning(
                host,
                facts,
                true,
                format!("on {name}: sudo ethtool -C {card}{adaptive} rx-usecs 0"),
            ),
        ));
    }
    let counts = &interface.counts;
    if counts.rx_crc_errors > counts.rx_packets / CRC_ERRORS_SHARE + 1 {
        findings.push(Finding::of(
            "crc",
            Severity::Slows,
            name,
            format!(
                "{name}'s {card} has received {} damaged frames since it started",
                counts.rx_crc_errors
            ),
            format!("change the cable of {name}, or its port at the switch"),
        ));
    }
    let overflows = counts.rx_missed + counts.rx_overruns;
    if overflows > counts.rx_packets / 100_000 + 1 {
        findings.push(Finding::of(
            "overflow",
            Severity::Note,
            name,
            format!("{name}'s {card} had no room for {overflows} frames since it started"),
            more_room(name, Some(facts), interface),
        ));
    }
    if let Some(pause) = interface.card.pause.get() {
        let frames = pause.rx_frames.unwrap_or(0) + pause.tx_frames.unwrap_or(0);
        if frames > 0 {
            findings.push(Finding::of(
                "pause",
                Severity::Note,
                name,
                format!("{name}'s {card} has exchanged {frames} pause frames with the switch"),
                format!("on {name}: sudo ethtool -A {card} rx off tx off"),
            ));
        }
    }
}

/// How a card gets room for more arrivals.
pub(super) fn more_room(host: &str, facts: Option<&Facts>, interface: &Interface) -> String {
    let card = &interface.name;
    let tunes = facts.and_then(|facts| facts.helper.get()).is_some_and(|helper| helper.tunes);
    match interface.card.rings.get().map(|rings| (rings.rx, rings.rx_max)) {
        Some((Some(now), Some(most))) if now < most && tunes => format!("wiglaf tune -w {host}"),
        Some((Some(now), Some(most))) if now < most => {
            format!("on {host}: sudo ethtool -G {card} rx {most}")
        }
        Some((Some(now), Some(_))) => {
            format!("nothing: the ring of {host}'s {card} has its full {now} slots")
        }
        _ => format!("on {host}: ethtool -g {card} says whether its rings can be longer"),
    }
}

fn processors(
    host: &Host,
    facts: &Facts,
    (cost, awake): (Option<f64>, Option<f64>),
    findings: &mut Vec<Finding>,
) {
    let name = &host.name;
    let states = facts.cpu.idle_states.get().into_iter().flatten();
    let deepest = states.filter(|state| !state.disabled).max_by_key(|state| state.latency_us);
    if let Some(state) = deepest.filter(|state| state.latency_us > IDLE_LATENCY_MAX_US) {
        // What it gives to keep them awake is measured, where the user may do so.
        let (cost, measured) = match awake {
            Some(gain) if gain >= PAUSE_COST_MIN_US => {
                let gain = format!(": kept awake they take {} us less a message", figure(gain));
                (awake, gain)
            }
            Some(_) => (awake, ", and keeping them awake was not seen to gain anything".to_owned()),
            None => (cost, measured(cost)),
        };
        findings.push(Finding::of(
            "c-states",
            severity(cost),
            name,
            format!(
                "{name}'s processors rest in {}, {} us from waking{measured}",
                state.name, state.latency_us,
            ),
            tuning(
                host,
                facts,
                true,
                format!("on {name}: sudo cpupower idle-set -D {}", IDLE_LATENCY_MAX_US + 1),
            ),
        ));
    }
    if facts.cpu.governor.get().is_some_and(|governor| governor == "powersave") {
        findings.push(Finding::of(
            "governor",
            Severity::Note,
            name,
            format!("{name}'s processors are slow to speed up: their governor is powersave"),
            format!("on {name}: sudo cpupower frequency-set -g performance"),
        ));
    }
}

fn sleep(host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let (name, power) = (&host.name, &facts.power);
    let why = match power {
        power if !power.can_suspend || power.is_masked => None,
        power if power.idle_action.is_some() => Some("logind's IdleAction is set".to_owned()),
        power if power.has_lid => Some("it has a lid".to_owned()),
        power => power.desktop.as_ref().map(|desktop| format!("{desktop} may suspend it")),
    };
    let Some(why) = why else { return };
    let (severity, fix) = match power.takes_inhibitors {
        true => (Severity::Note, "nothing: jobs hold an inhibitor while they run".to_owned()),
        false => (Severity::Slows, format!("on {name}: sudo systemctl mask sleep.target")),
    };
    let sentence = format!("{name} may fall asleep in mid-job: {why}");
    findings.push(Finding::of("sleep", severity, name, sentence, fix));
}

/// What restarts services by itself, one sentence for each on all its hosts.
fn services(checked: &Checked, findings: &mut Vec<Finding>) {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for (host, facts) in checked.known() {
        for service in facts.updaters.iter().filter(|service| service.enabled) {
            match found.iter_mut().find(|(name, _)| *name == service.name) {
                Some((_, hosts)) => hosts.push(&host.name),
                None => found.push((&service.name, vec![&host.name])),
            }
        }
    }
    for (service, hosts) in found {
        findings.push(Finding::between(
            "updates",
            Severity::Note,
            hosts.iter().copied(),
            format!(
                "{service} on {} may restart services in mid-job",
                listed(hosts.iter().copied())
            ),
            format!("on each: sudo systemctl stop {service} for the time of long jobs"),
        ));
    }
    for (host, facts) in checked.known() {
        if let Some(false) = facts.clock.synchronised.get() {
            let name = &host.name;
            findings.push(Finding::of(
                "clock-source",
                Severity::Note,
                name,
                format!("nothing keeps {name}'s clock right"),
                format!("on {name}: sudo apt-get install systemd-timesyncd"),
            ));
        }
    }
}

/// Hosts whose users get the slower link.
fn helper(checked: &Checked, findings: &mut Vec<Finding>) {
    // Root needs none.
    let users = checked.known().filter(|(_, facts)| facts.user.uid != 0);
    let (mut absent, mut refused) = (Vec::new(), Vec::new());
    for (host, facts) in users {
        match &facts.helper {
            Known::Unknown { .. } => absent.push(&host.name[..]),
            Known::Is(helper) if !helper.admits => refused.push(&host.name[..]),
            Known::Is(_) => {}
        }
    }
    let mut say = |hosts: &[&str], what: &str, fix: String| {
        if !hosts.is_empty() {
            let sentence =
                format!("{what} on {}: jobs use the udp link there", listed(hosts.iter().copied()));
            findings.push(Finding::between(
                "helper",
                Severity::Slows,
                hosts.iter().copied(),
                sentence,
                fix,
            ));
        }
    };
    let join = |hosts: &[&str]| format!("wiglaf join {}", hosts.join(" "));
    say(&absent, "no wiglaf-helper runs", join(&absent));
    say(&refused, "the wiglaf-helper does not admit this user", join(&refused));
}

/// By how much two measurements differ, in words: of `wiglaf tune`.
pub(super) fn gain(before_us: f64, after_us: f64) -> String {
    let ns = ((before_us - after_us).abs() * 1e3) as i128;
    match before_us - after_us {
        less if less >= 1.0 => format!("{} less ({} us before)", time(ns), figure(before_us)),
        less if less <= -1.0 => format!("{} more ({} us before)", time(ns), figure(before_us)),
        _ => format!("as before ({} us)", figure(before_us)),
    }
}
