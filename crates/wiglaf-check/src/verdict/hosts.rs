//! What a host says of its names, ways, cables and folders that jobs cannot do with.

use std::net::{IpAddr, Ipv4Addr};

use super::words::{bytes, listed};
use super::{Checked, Expected, Finding, Host, Severity};
use crate::facts::{Facts, Interface, is_loopback};
use crate::known::Known;

/// Less free space than this and a job's output may not fit, in bytes.
const DISK_FREE_MIN: u64 = 1 << 30;
/// Docker's default is 64 MiB, too small for the ranks of one host.
const SHM_SIZE_MIN: u64 = 128 << 20;

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    for host in &checked.hosts {
        let facts = match &host.facts {
            Known::Is(facts) => facts,
            Known::Unknown { unknown } => {
                findings.push(Finding::of(
                    "silent",
                    Severity::Fatal,
                    &host.name,
                    format!("{} says nothing: {unknown}", host.name),
                    format!("ssh {} wiglaf --version", host.name),
                ));
                continue;
            }
        };
        data_network(&checked.expected, host, facts, findings);
        ways(checked, host, facts, findings);
        cable(checked, host, facts, findings);
        names(checked, host, facts, findings);
        folder(host, facts, findings);
        space(host, facts, findings);
    }
}

/// Whether the network has the address.
fn is_in((network, prefix): (Ipv4Addr, u8), ip: Ipv4Addr) -> bool {
    mask(network, prefix) == mask(ip, prefix)
}

/// The network of an address.
pub(super) fn mask(ip: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    Ipv4Addr::from(u32::from(ip) & mask)
}

/// The host's interface on the data network.
pub(super) fn data_interface<'a>(
    expected: &Expected,
    host: &Host,
    facts: &'a Facts,
) -> Option<&'a Interface> {
    let by_network = || {
        let data = expected.data?;
        facts.interfaces.get()?.iter().find(|i| i.addresses.iter().any(|(ip, _)| is_in(data, *ip)))
    };
    host.address.and_then(|ip| facts.holding(ip)).or_else(by_network)
}

fn data_network(expected: &Expected, host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let name = &host.name;
    let Some(interfaces) = facts.interfaces.get() else { return };
    let Some(interface) = data_interface(expected, host, facts) else {
        let missing = match (host.address, expected.data) {
            (Some(ip), _) => format!("the address {ip} that the cluster file gives it"),
            (None, Some(_)) => {
                let network = expected.network().unwrap_or_default();
                format!("an address of the data network {network}")
            }
            (None, None) => return,
        };
        let own = interfaces.iter().filter(|i| !i.is_loopback).flat_map(|i| &i.addresses);
        let own: Vec<String> = own.map(|(ip, _)| ip.to_string()).collect();
        let own = if own.is_empty() { "none".to_owned() } else { own.join(", ") };
        findings.push(Finding::of(
            "address",
            Severity::Fatal,
            name,
            format!("{name} does not have {missing}; it has {own}"),
            format!("correct the address of {name} in the cluster file, or on {name}: ip address"),
        ));
        return;
    };
    let card = &interface.name;
    if !interface.is_up || interface.carrier == Some(false) {
        let why = if interface.is_up { "has no cable" } else { "is down" };
        findings.push(Finding::of(
            "carrier",
            Severity::Fatal,
            name,
            format!("{name}'s {card} {why}"),
            match interface.is_up {
                true => format!("plug the cable of {card} of {name} in"),
                false => format!("on {name}: sudo ip link set {card} up"),
            },
        ));
    }
    if interface.is_wireless {
        findings.push(Finding::of(
            "wireless",
            Severity::Slows,
            name,
            format!("{name}'s {card} on the data network is Wi-Fi"),
            format!("connect {name} by cable, and name that network in the cluster file"),
        ));
    }
}

/// Whether datagrams to the peers leave by the data network.
fn ways(checked: &Checked, host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let name = &host.name;
    let data = data_interface(&checked.expected, host, facts);
    let peers = checked.hosts.iter().filter(|peer| peer.name != *name);
    // One sentence for all peers that are reached by one wrong interface.
    let mut wrong: Vec<(String, Vec<&str>, Ipv4Addr)> = Vec::new();
    for peer in peers {
        let Some((ip, route)) = peer.address.and_then(|ip| Some((ip, facts.route(ip)?))) else {
            continue;
        };
        let to = &peer.name;
        match &route.interface {
            Known::Unknown { unknown } => findings.push(Finding::between(
                "route",
                Severity::Fatal,
                [&name[..]],
                format!("{name} cannot reach {to}: {unknown}"),
                format!("on {name}: ip route get {ip}"),
            )),
            Known::Is(by) => {
                if data.is_some_and(|data| data.name != *by) {
                    match wrong.iter_mut().find(|(known, ..)| known == by) {
                        Some((_, peers, _)) => peers.push(to),
                        None => wrong.push((by.clone(), vec![to], ip)),
                    }
                } else if let Some(router) = route.gateway {
                    findings.push(Finding::of(
                        "router",
                        Severity::Slows,
                        name,
                        format!("{name} reaches {to} through the router {router}"),
                        format!("on {name}: ip route get {ip}"),
                    ));
                }
            }
        }
    }
    for (by, peers, ip) in wrong {
        let Some(data) = data else { continue };
        let nature = facts.interface(&by).map_or("", |interface| match interface {
            interface if interface.is_wireless => " (Wi-Fi)",
            interface if interface.is_loopback => " (itself)",
            interface if interface.is_virtual => " (no real card)",
            _ => "",
        });
        let sentence = format!(
            "{name} reaches {} by {by}{nature}, not by {}",
            listed(peers.iter().copied()),
            data.name
        );
        let fix = match checked.expected.network() {
            Some(network) => {
                let card = &data.name;
                format!("on {name}: sudo ip route replace {network} dev {card}")
            }
            None => format!("on {name}: ip route get {ip}"),
        };
        findings.push(Finding::of("route", Severity::Fatal, name, sentence, fix));
    }
}

/// Speed and duplex, beside what both ends can and what the others have.
fn cable(checked: &Checked, host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let Some(interface) = data_interface(&checked.expected, host, facts) else { return };
    let (name, card) = (&host.name, &interface.name);
    if interface.card.full_duplex.get() == Some(&false) {
        findings.push(Finding::of(
            "duplex",
            Severity::Slows,
            name,
            format!("{name}'s {card} runs in half duplex: it cannot send and receive at once"),
            format!("on {name}: sudo ethtool -s {card} autoneg on"),
        ));
    }
    let Some(speed) = interface.card.speed_mbit.get().copied() else { return };
    let known = |speed: &Known<u32>| speed.get().copied();
    let (own, peer) =
        (known(&interface.card.speed_max_mbit), known(&interface.card.peer_speed_max_mbit));
    let others = checked.known().filter(|(other, _)| other.name != *name);
    let others = others.filter_map(|(other, facts)| {
        data_interface(&checked.expected, other, facts)?.card.speed_mbit.get().copied()
    });
    let best = others.max();
    if let Some(own) = own.filter(|own| *own > speed) {
        let (sentence, fix) = match peer {
            // The switch advertises no more than it has: the cable is not to blame.
            Some(peer) if peer <= speed => (
                format!("{name}'s {card} could {own} Mbit/s, its switch port offers {peer} only"),
                format!("move the cable of {name} to a faster port of the switch"),
            ),
            _ => (
                format!("{name}'s cable gives {speed} Mbit/s, its card can {own}"),
                format!("change the cable of {name}"),
            ),
        };
        // A faster card than all the cables of the others is no fault of this host's.
        let matters = best.is_none_or(|best| best > speed);
        let severity = if matters { Severity::Slows } else { Severity::Note };
        findings.push(Finding::of("speed", severity, name, sentence, fix));
    } else if let Some(best) = best.filter(|best| *best > speed) {
        findings.push(Finding::of(
            "speed",
            Severity::Slows,
            name,
            format!("{name}'s {card} runs at {speed} Mbit/s, the best of the others at {best}"),
            format!("give {name} a faster card, or leave it out: wiglaf run -w"),
        ));
    }
}

fn names(checked: &Checked, host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let name = &host.name;
    for seen in &facts.names {
        let of = &seen.name;
        let peer = checked.hosts.iter().find(|peer| peer.name == *of);
        let loopback = seen.addresses.iter().find(|ip| is_loopback(ip));
        if let Some(loopback) = loopback.filter(|_| of != "localhost") {
            let address = peer.and_then(|peer| peer.address).or(host.address);
            let address = address.map_or("its address".to_owned(), |ip| ip.to_string());
            findings.push(Finding::of(
                "names",
                Severity::Slows,
                name,
                format!("on {name} the name {of} means {loopback}, where no other host finds it"),
                format!(
                    "on {name}: put {address} in place of {loopback} before {of} in /etc/hosts"
                ),
            ));
            continue;
        }
        let Some(peer) = peer else { continue };
        let (Some(ip), [first, ..]) = (peer.address, &seen.addresses[..]) else { continue };
        // Any address of that host will do: names may be those of the other network.
        let own = peer.facts.get().and_then(|facts| facts.interfaces.get());
        let own: Vec<Ipv4Addr> =
            own.into_iter().flatten().flat_map(|i| &i.addresses).map(|(ip, _)| *ip).collect();
        let is_own = |seen: &IpAddr| match seen {
            IpAddr::V4(seen) => *seen == ip || own.contains(seen),
            IpAddr::V6(_) => true,
        };
        if !own.is_empty() && !seen.addresses.iter().any(is_own) {
            findings.push(Finding::of(
                "names",
                Severity::Slows,
                name,
                format!(
                    "on {name} the name {of} means {first}, which {of} does not have: it is {ip}"
                ),
                format!("on {name}: getent hosts {of}, then correct /etc/hosts or the name server"),
            ));
        }
    }
}

fn folder(host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let name = &host.name;
    let Some(folder) = &facts.folder else { return };
    let path = folder.path.display();
    match &folder.is {
        Known::Unknown { unknown } => findings.push(Finding::of(
            "folder",
            Severity::Fatal,
            name,
            format!("{name} cannot start jobs in {path}: {unknown}"),
            "wiglaf run --share or --stage, in place of wiglaf run",
        )),
        Known::Is(seen) if !seen.writable => findings.push(Finding::of(
            "folder",
            Severity::Note,
            name,
            format!("on {name} this user cannot write in {path}"),
            format!("on {name}: ls -ld {path}"),
        )),
        Known::Is(_) => {}
    }
    for file in &facts.files {
        if let Known::Unknown { unknown } = &file.is {
            let path = file.path.display();
            findings.push(Finding::of(
                "file",
                Severity::Fatal,
                name,
                format!("{name} does not have {path}: {unknown}"),
                format!("wiglaf cp {path} {name}:{path}"),
            ));
        }
    }
}

fn space(host: &Host, facts: &Facts, findings: &mut Vec<Finding>) {
    let name = &host.name;
    for disk in &facts.disks {
        let path = disk.path.display();
        if let Some(free) = disk.free.get().filter(|free| **free < DISK_FREE_MIN) {
            findings.push(Finding::of(
                "disk",
                Severity::Slows,
                name,
                format!("{name} has only {} free in {path}", bytes(*free)),
                format!("on {name}: du -xsh {path}/* | sort -h"),
            ));
        }
    }
    if let Some(size) = facts.memory.shm_size.get().filter(|size| **size < SHM_SIZE_MIN) {
        findings.push(Finding::of(
            "shm",
            Severity::Slows,
            name,
            format!("{name}'s /dev/shm has {}, too little for the ranks of a host", bytes(*size)),
            format!("on {name}: sudo mount -o remount,size=50% /dev/shm"),
        ));
    }
    let memory = &facts.memory;
    if memory.total > 0 && memory.available < memory.total / 10 {
        findings.push(Finding::of(
            "memory",
            Severity::Slows,
            name,
            format!(
                "of {name}'s {} of memory only {} are left",
                bytes(memory.total),
                bytes(memory.available)
            ),
            format!("on {name}: ps --sort=-rss -eo rss,user,args | head"),
        ));
    }
}
