//! What gets from host to host: ports, long frames, messages, and what is lost.

use std::collections::BTreeMap;

use super::words::{listed, numbers};
use super::{Checked, Finding, Severity};
use crate::facts::Facts;
use crate::known::Known;
use crate::probe::{Beyond, Delivery, Loss, PairResult, PathMtu, Ports, Way};

/// More than one in so many datagrams lost is worth a word: they are sent evenly, far below the rate
/// of the wire.
const LOSS_SHARE: u32 = 10_000;

/// A direction of a pair.
struct Direction<'a> {
    from: &'a str,
    to: &'a str,
    way: &'a Way,
    /// The link by which the sender sends.
    link: &'a str,
}

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    for pair in &checked.pairs {
        failures(pair, findings);
    }
    let all: Vec<Direction<'_>> = checked.pairs.iter().flat_map(directions).collect();
    let ports = ports(checked, &all, findings);
    let mtu = mtu(checked, &all, findings);
    for direction in &all {
        // Also the other way: acknowledgements have to come back.
        let explained = ports.iter().chain(&mtu).any(|(from, to)| {
            [(&from[..], &to[..]), (to, from)].contains(&(direction.from, direction.to))
        });
        messages(direction, explained, findings);
        if let Known::Is(loss) = &direction.way.loss {
            lost(checked, direction, loss, findings);
        }
    }
    multicast(&all, &ports, findings);
    links(checked, findings);
}

/// Receivers that do not hear what is sent to a group, but hear what is for them alone.
fn multicast(all: &[Direction<'_>], closed: &[(String, String)], findings: &mut Vec<Finding>) {
    let mut deaf: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Direction { from, to, way, .. } in all {
        let explained = closed.iter().any(|(of, at)| of == from && at == to);
        let works = way.long.get().is_some_and(|long| matches!(long, Delivery::Intact(_)));
        if way.multicast == Known::Is(false) && works && !explained {
            deaf.entry(to).or_default().push(from);
        }
    }
    let Some((to, from)) = deaf.iter().next() else { return };
    // One that hears nobody while the others hear each other has a filter of its own; else it is the switch.
    let is_alone = deaf.len() == 1 && all.len() > 2;
    let fix = match is_alone {
        true => format!("on {to}: sudo nft list ruleset"),
        false => "on the switch: IGMP snooping off for these hosts' network, or its querier on"
            .to_owned(),
    };
    let what = "what is sent to all hosts at once";
    let outcome = "`wiglaf run --collectives multicast` leaves all to the MPI";
    let whom = match deaf.len() {
        1 => format!("from {} does not come to {to}", listed(from.iter().copied())),
        _ => format!("does not come to {}", listed(deaf.keys().copied())),
    };
    findings.push(Finding::between(
        "multicast",
        Severity::Note,
        deaf.keys().copied(),
        format!("{what} {whom}: {outcome}"),
        fix,
    ));
}

fn directions(pair: &PairResult) -> [Direction<'_>; 2] {
    let name = |link: &'_ Known<crate::probe::OpenedLink>| match link.get() {
        Some(link) if link.name == "packet" => "packet",
        Some(link) if link.name.starts_with("xdp") => "xdp",
        _ => "udp",
    };
    [
        Direction { from: &pair.a, to: &pair.b, way: &pair.a_to_b, link: name(&pair.a_link) },
        Direction { from: &pair.b, to: &pair.a, way: &pair.b_to_a, link: name(&pair.b_link) },
    ]
}

fn failures(pair: &PairResult, findings: &mut Vec<Finding>) {
    let (a, b) = (&pair.a, &pair.b);
    if let Some(why) = &pair.failure {
        findings.push(Finding::between(
            "pair",
            Severity::Fatal,
            [&a[..], b],
            format!("{a} and {b} could not be measured: {why}"),
            format!("wiglaf check -w {a},{b}"),
        ));
    }
    for (host, link) in [(a, &pair.a_link), (b, &pair.b_link)] {
        if let (Known::Unknown { unknown }, None) = (link, &pair.failure) {
            findings.push(Finding::of(
                "link",
                Severity::Fatal,
                host,
                format!("{host} can open no link to {}: {unknown}", if host == a { b } else { a }),
                format!("on {host}: wiglaf doctor"),
            ));
        }
    }
}

/// Receivers by what they drop; answers which directions this explains.
fn ports(
    checked: &Checked,
    all: &[Direction<'_>],
    findings: &mut Vec<Finding>,
) -> Vec<(String, String)> {
    let mut explained = Vec::new();
    // What a receiver does to several senders is one sentence.
    type Key<'a> = (&'a str, Vec<u16>, bool, bool);
    let mut found: BTreeMap<Key<'_>, Vec<&str>> = BTreeMap::new();
    for direction in all {
        let Known::Is(ports) = &direction.way.ports else { continue };
        let missing: Vec<u16> =
            ports.asked.iter().filter(|port| !ports.arrived.contains(port)).copied().collect();
        if missing.is_empty() {
            continue;
        }
        explained.push((direction.from.to_owned(), direction.to.to_owned()));
        // A word for one of them is enough: kernels give few.
        let refuses = missing.iter().any(|port| ports.refused.contains(port));
        let works = direction.way.long.get().is_some_and(|l| matches!(l, Delivery::Intact(_)));
        let key = (direction.to, closed_ranges(ports, &missing), refuses, works);
        found.entry(key).or_default().push(direction.from);
    }
    for ((to, closed, refuses, works), from) in found {
        let ports: Vec<u64> = closed.iter().map(|port| u64::from(*port)).collect();
        let (range, verb) = (numbers(&ports), if refuses { "refuses" } else { "drops" });
        let senders = listed(from.iter().copied());
        let (severity, but) = match works {
            true => (Severity::Slows, "; jobs get through only where they answer each other"),
            false => (Severity::Fatal, ""),
        };
        findings.push(Finding::between(
            "ports",
            severity,
            [to],
            format!("{to} {verb} UDP {range} from {senders}{but}"),
            format!("on {to}: {}", opening(checked, to)),
        ));
    }
    explained
}

/// The ports that are taken to be closed: those between open ones of the sample count, too.
fn closed_ranges(ports: &Ports, missing: &[u16]) -> Vec<u16> {
    let (first, last) = ports.range;
    if ports.arrived.is_empty() {
        return (first..=last).collect();
    }
    let mut closed = Vec::new();
    for port in missing {
        // Up to the neighbours of the sample.
        let before = ports.asked.iter().filter(|other| *other < port).max();
        let follows = before.is_some_and(|before| missing.contains(before));
        let from = if follows { before.copied().unwrap_or(*port) + 1 } else { *port };
        closed.extend(from..=*port);
    }
    closed.dedup();
    closed
}

/// The command that opens the ports on that host.
fn opening(checked: &Checked, host: &str) -> String {
    let (first, last) = checked.expected.ports;
    let on = |name: &str| {
        let firewalls = checked.facts(host).map(|facts| &facts.firewalls[..]).unwrap_or_default();
        firewalls.iter().any(|firewall| firewall.enabled && firewall.name == name)
    };
    let network = checked.expected.network();
    if on("ufw") {
        let from = network.unwrap_or("any".to_owned());
        format!("sudo ufw allow proto udp from {from} to any port {first}:{last}")
    } else if on("firewalld") {
        let port = format!("sudo firewall-cmd --permanent --add-port={first}-{last}/udp");
        format!("{port} && sudo firewall-cmd --reload")
    } else if on("nftables") {
        let from = network.map(|network| format!("ip saddr {network} ")).unwrap_or_default();
        format!("sudo nft insert rule inet filter input {from}udp dport {first}-{last} accept")
    } else {
        let from = network.map(|network| format!("-s {network} ")).unwrap_or_default();
        format!("sudo iptables -I INPUT {from}-p udp --dport {first}:{last} -j ACCEPT")
    }
}

/// Senders whose long frames do not arrive; answers which directions this explains.
fn mtu(
    checked: &Checked,
    all: &[Direction<'_>],
    findings: &mut Vec<Finding>,
) -> Vec<(String, String)> {
    let mut explained = Vec::new();
    type Key<'a> = (&'a str, u32, u32, String);
    let mut found: BTreeMap<Key<'_>, (Vec<&str>, bool)> = BTreeMap::new();
    for direction in all {
        let Known::Is(PathMtu { interface, largest, beyond }) = &direction.way.mtu else {
            continue;
        };
        if largest >= interface {
            continue;
        }
        explained.push((direction.from.to_owned(), direction.to.to_owned()));
        let receiver = mtu_of(checked, direction.to).filter(|mtu| mtu < interface);
        // Cards take a few bytes more than their MTU, for VLAN tags.
        let receiver = receiver.filter(|mtu| largest.abs_diff(*mtu) <= 18);
        let (who, largest) = match (beyond, receiver) {
            (Beyond::ToldByRouter, _) => {
                ("a router on the way refuses more than".to_owned(), *largest)
            }
            (_, Some(mtu)) => (format!("{} takes", direction.to), mtu),
            _ => ("the switch drops above".to_owned(), *largest),
        };
        let works = direction.way.long.get().is_some_and(|l| matches!(l, Delivery::Intact(_)));
        let key = (direction.from, *interface, largest, who);
        let (to, all_work) = found.entry(key).or_insert((Vec::new(), true));
        to.push(direction.to);
        *all_work &= works;
    }
    for ((from, interface, largest, who), (to, works)) in found {
        // Where peers agree on shorter frames, jobs run.
        let severity = if works { Severity::Slows } else { Severity::Fatal };
        let towards = if who.ends_with("takes") {
            String::new()
        } else {
            format!(" (to {})", listed(to.iter().copied()))
        };
        let card = card_of(checked, from).unwrap_or("INTERFACE");
        findings.push(Finding::of(
            "mtu",
            severity,
            from,
            format!("{from} sends frames of {interface} bytes, {who} {largest}{towards}"),
            format!("on {from}: sudo ip link set {card} mtu {largest}"),
        ));
    }
    explained
}

fn messages(direction: &Direction<'_>, explained: bool, findings: &mut Vec<Finding>) {
    let Direction { from, to, way, link } = direction;
    let kinds = [("a message of two frames", &way.frame), ("a message of some MiB", &way.long)];
    for (what, outcome) in kinds {
        let Known::Is(outcome) = outcome else { continue };
        let (code, came) = match outcome {
            Delivery::Intact(_) => continue,
            Delivery::Damaged => ("damaged", "arrives damaged".to_owned()),
            // The cause has been named already.
            Delivery::Silent | Delivery::Failed(_) if explained => continue,
            Delivery::Silent => ("message", "does not arrive".to_owned()),
            Delivery::Failed(why) => ("message", format!("does not arrive ({why})")),
        };
        let fix = match code {
            "damaged" => {
                format!("test the memory and the cable of {to}, then: wiglaf check -w {from},{to}")
            }
            _ if *link == "udp" => format!("on {to}: sudo nft list ruleset"),
            _ => "wiglaf run --link udp, and compare".to_owned(),
        };
        let sentence = format!("{what} from {from} to {to} {came} over {link}");
        findings.push(Finding::between(code, Severity::Fatal, [*from, to], sentence, fix));
        // The longer one would tell nothing new.
        break;
    }
}

fn lost(checked: &Checked, direction: &Direction<'_>, loss: &Loss, findings: &mut Vec<Finding>) {
    let Direction { from, to, way, .. } = direction;
    let lost = loss.sent.saturating_sub(loss.arrived);
    let silent =
        loss.arrived == 0 || way.ports.get().is_some_and(|p| p.arrived.len() < p.asked.len());
    if loss.sent == 0 || lost <= loss.sent / LOSS_SHARE || silent {
        return;
    }
    let card = card_of(checked, to).unwrap_or("INTERFACE");
    let receiver = loss.receiver.get().copied().unwrap_or_default();
    let sender = loss.sender.get().copied().unwrap_or_default();
    let (why, fix) = if receiver.rx_crc_errors > 0 {
        let count = receiver.rx_crc_errors;
        (format!("{to}'s {card} received {count} damaged"), format!("change the cable of {to}"))
    } else if receiver.rx_missed + receiver.rx_overruns > 0 {
        let count = receiver.rx_missed + receiver.rx_overruns;
        let fix = interface_of(checked, to).map(|card| {
            let facts = checked.known().find(|(host, _)| host.name == *to);
            super::machines::more_room(to, facts.map(|(_, facts)| facts), card)
        });
        (
            format!("{to}'s {card} had no room for {count}"),
            fix.unwrap_or_else(|| format!("on {to}: ethtool -g {card}")),
        )
    } else if sender.tx_dropped + sender.tx_errors > 0 {
        let count = sender.tx_dropped + sender.tx_errors;
        let card = card_of(checked, from).unwrap_or("INTERFACE");
        let fix = format!("on {from}: ethtool -S {card} says which of its counters grows");
        (format!("{from} itself dropped {count}"), fix)
    } else if receiver.rx_dropped > 0 {
        let count = receiver.rx_dropped;
        let fix = format!("on {to}: sudo sysctl net.core.netdev_max_backlog=10000");
        (format!("{to} itself dropped {count}"), fix)
    } else if receiver.rx_packets >= u64::from(loss.sent) {
        let fix = format!("wiglaf check -w {from},{to}, while {to} is idle");
        (format!("all reached {to}, which was too busy to take them or has a filter"), fix)
    } else {
        let fix = format!("change cables and switch ports of {from} and {to}, one at a time");
        ("neither card counted them".to_owned(), fix)
    };
    findings.push(Finding::between(
        "loss",
        Severity::Slows,
        [*from, to],
        format!("of {} datagrams from {from} to {to} {lost} were lost: {why}", loss.sent),
        fix,
    ));
}

/// Hosts that have the slower link, where others have the faster.
fn links(checked: &Checked, findings: &mut Vec<Finding>) {
    let mut links: BTreeMap<&str, (&str, Option<&str>)> = BTreeMap::new();
    for pair in &checked.pairs {
        for (host, link) in [(&pair.a, &pair.a_link), (&pair.b, &pair.b_link)] {
            if let Some(link) = link.get() {
                links.insert(host, (&link.name, link.note.as_deref()));
            }
        }
    }
    let (plain, other): (Vec<_>, Vec<_>) = links.iter().partition(|(_, (link, _))| *link == "udp");
    if plain.is_empty() || other.is_empty() {
        return;
    }
    // What the facts have already said of the helper needs no second sentence.
    let is_named = |host: &str| {
        findings.iter().any(|f| f.code == "helper" && f.hosts.iter().any(|known| known == host))
    };
    let plain: Vec<_> = plain.into_iter().filter(|(host, _)| !is_named(host)).collect();
    if plain.is_empty() {
        return;
    }
    let hosts: Vec<&str> = plain.iter().map(|(host, _)| **host).collect();
    let why = plain.iter().find_map(|(_, (_, note))| *note);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    findings.push(Finding::between(
        "link",
        Severity::Slows,
        hosts.iter().copied(),
        format!(
            "jobs on {} use the udp link, the others {}{why}",
            listed(hosts.iter().copied()),
            other[0].1.0
        ),
        format!("wiglaf join {}", hosts.join(" ")),
    ));
}

fn mtu_of(checked: &Checked, host: &str) -> Option<u32> {
    interface_of(checked, host).map(|interface| interface.mtu)
}

fn card_of<'a>(checked: &'a Checked, host: &str) -> Option<&'a str> {
    interface_of(checked, host).map(|interface| &interface.name[..])
}

fn interface_of<'a>(checked: &'a Checked, name: &str) -> Option<&'a crate::facts::Interface> {
    let host = checked.hosts.iter().find(|host| host.name == name)?;
    let facts: &Facts = host.facts.get()?;
    super::hosts::data_interface(&checked.expected, host, facts)
}
