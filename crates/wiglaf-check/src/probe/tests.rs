//! Pairs of namespaces, measured as two hosts are.

use std::io::BufReader;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use wiglaf_testnet::{INTERFACE, Pair};

use super::*;
use crate::facts::{Ask, collect};
use crate::verdict::{Checked, Expected, Finding, Host, Severity};

const PORTS: (u16, u16) = (47000, 47999);

/// Has both ends served in their namespaces.
fn with_sides<T>(pair: &Pair, run: impl FnOnce(End<'_>, End<'_>) -> T) -> T {
    std::thread::scope(|scope| {
        let streams = [&pair.a, &pair.b].map(|node| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            scope.spawn(move || {
                node.enter();
                let input = BufReader::new(theirs.try_clone().unwrap());
                // The caller goes before the last answer is written, at times.
                let _ = serve(input, theirs);
            });
            ours
        });
        let [mut a, mut b] = streams
            .each_ref()
            .map(|stream| Lines::new(stream.try_clone().unwrap(), stream.try_clone().unwrap()));
        let a = End { name: "pc1", address: pair.a.ip, side: &mut a };
        let b = End { name: "pc2", address: pair.b.ip, side: &mut b };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(a, b)));
        for stream in &streams {
            stream.shutdown(Shutdown::Both).unwrap();
        }
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// All steps, but short ones.
fn short(link: &str) -> Plan {
    Plan {
        link: Some(link.to_owned()),
        pings: 20,
        link_pings: 50,
        paused_pings: 10,
        stream_ms: 200,
        loss_count: 500,
        loss_per_s: 5000,
        ..Plan::full(PORTS)
    }
}

fn judged(pair: &Pair, result: PairResult) -> Vec<Finding> {
    let facts = |node: &wiglaf_testnet::Node| node.run(|| collect(&Ask::default()));
    let host = |name: &str, node: &wiglaf_testnet::Node| Host {
        name: name.to_owned(),
        address: Some(node.ip),
        facts: Known::Is(facts(node)),
    };
    let hosts = vec![host("pc1", &pair.a), host("pc2", &pair.b)];
    let expected = Expected { data: Some((pair.a.ip, 24)), ports: PORTS };
    Checked::new(0, expected, hosts, vec![result], Vec::new(), None).findings
}

/// Lets a filter of the kernel work in one namespace; `None` where there is none.
fn filter(node: &wiglaf_testnet::Node, rule: &str) -> Option<()> {
    let chain = "{ type filter hook input priority 0; }";
    let script = format!(
        "add table inet test; add chain inet test input {chain}; add rule inet test input {rule}"
    );
    match node.command("nft", &[&script]) {
        Ok(_) => Some(()),
        Err(why) => {
            eprintln!("skipped: no nft here: {why}");
            None
        }
    }
}

#[test]
fn four_hosts_meet_each_other_once_and_one_that_cannot_be_reached_fails_alone() {
    let hosts: Vec<(String, Ipv4Addr)> =
        (1..=5).map(|n| (format!("pc{n}"), Ipv4Addr::new(127, 0, 0, n))).collect();
    // One host's processes, which end with their input.
    let connect = |host: usize| -> Result<Box<dyn Side + Send>, String> {
        if host == 4 {
            return Err("ssh: no route to host".to_owned());
        }
        let (requests, to) = std::io::pipe().unwrap();
        let (from, answers) = std::io::pipe().unwrap();
        std::thread::spawn(move || serve(BufReader::new(requests), answers));
        Ok(Box::new(Lines::new(from, to)))
    };
    let plan = Plan {
        link: Some("udp".to_owned()),
        stream_ms: 20,
        long_len: 1 << 16,
        pings: 3,
        link_pings: 10,
        ..Plan::quick((20_000, 30_000))
    };
    let mut rounds = Vec::new();
    let Measured { pairs, together } =
        tournament(&hosts, &connect, &plan, Duration::from_secs(60), &mut |round, of| {
            rounds.push((round, of));
        });
    assert_eq!(rounds, (1..=6).map(|round| (round, 6)).collect::<Vec<_>>());
    assert_eq!((pairs.len(), together.len()), (10, 10));
    for pair in pairs.iter().chain(&together) {
        let lost = pair.a == "pc5" || pair.b == "pc5";
        assert_eq!(pair.failure.is_some(), lost, "{pair:?}");
        let why = pair.failure.as_deref().unwrap_or("pc5: ssh: no route to host");
        assert_eq!(why, "pc5: ssh: no route to host");
        let rate = pair.a_to_b.stream_both_mb_s.get();
        assert_eq!(rate.is_some(), !lost, "{pair:?}");
    }
    // No time is left for any round.
    let none = tournament(&hosts, &connect, &plan, Duration::ZERO, &mut |_, _| {});
    assert!(none.pairs.is_empty() && none.together.is_empty());
}

#[test]
fn two_good_hosts_measure_everything_and_nothing_fatal_is_found() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    for link in ["auto", "udp"] {
        let result = with_sides(&pair, |a, b| measure(a, b, &short(link)));
        assert_eq!(result.failure, None, "{result:?}");
        for way in [&result.a_to_b, &result.b_to_a] {
            let ports = way.ports.get().expect("ports");
            assert_eq!((ports.asked.len() + ports.busy.len(), &ports.asked), (16, &ports.arrived));
            assert!(ports.refused.is_empty(), "{ports:?}");
            let whole = PathMtu { interface: 1500, largest: 1500, beyond: Beyond::Told };
            assert_eq!(way.mtu, Known::Is(whole));
            assert!(matches!(way.frame.get(), Some(Delivery::Intact(_))), "{:?}", way.frame);
            assert!(matches!(way.long.get(), Some(Delivery::Intact(_))), "{:?}", way.long);
            assert!(way.stream_mb_s.get().is_some_and(|rate| *rate > 0.0), "{way:?}");
            assert!(way.stream_both_mb_s.get().is_some_and(|rate| *rate > 0.0), "{way:?}");
            let loss = way.loss.get().expect("a flood");
            assert!(loss.sent == 500 && (1..=500).contains(&loss.arrived), "{loss:?}");
            let seen = loss.receiver.get().expect("counters").rx_packets;
            assert!(seen >= u64::from(loss.arrived), "{loss:?}");
        }
        for latency in [&result.plain, &result.link, &result.after_pause] {
            let latency = latency.get().expect("round trips");
            assert!(0.0 < latency.min_us && latency.min_us <= latency.p50_us, "{latency:?}");
            assert!(latency.p50_us <= latency.p99_us && latency.rounds > 0, "{latency:?}");
        }
        let awake = &result.after_pause_awake;
        let refused = awake.reason().is_some_and(|why| why.contains("/dev/cpu_dma_latency"));
        assert!(awake.get().is_some() || refused, "{awake:?}");
        // It is one clock.
        let clock = result.clock.get().expect("a clock");
        assert!(clock.ahead_ns.abs() <= clock.bound_ns, "{clock:?}");
        let name = |link: &Known<OpenedLink>| link.get().map(|link| link.name.clone());
        assert_eq!(name(&result.a_link), name(&result.b_link));
        let found = judged(&pair, result);
        assert!(found.iter().all(|finding| finding.severity != Severity::Fatal), "{found:?}");
    }
}

#[test]
fn a_receiver_with_a_smaller_mtu_is_found_in_one_direction_only() {
    let Some(pair) = Pair::or_skip(9000) else { return };
    pair.b.ip(&["link", "set", INTERFACE, "mtu", "1500"]).unwrap();
    let plan = Plan { loss_count: 0, stream_ms: 0, ..short("udp") };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    assert_eq!(result.failure, None);
    let there = result.a_to_b.mtu.get().expect("found");
    assert_eq!((there.interface, there.beyond), (9000, Beyond::Vanishes));
    // Interfaces take a VLAN tag more than their MTU.
    assert!((1500..=1504).contains(&there.largest), "{there:?}");
    let back = PathMtu { interface: 1500, largest: 1500, beyond: Beyond::Told };
    assert_eq!(result.b_to_a.mtu, Known::Is(back));
    let found = judged(&pair, result);
    let mtu: Vec<&Finding> = found.iter().filter(|finding| finding.code == "mtu").collect();
    let [finding] = &mtu[..] else { panic!("{found:?}") };
    assert_eq!(finding.sentence, "pc1 sends frames of 9000 bytes, pc2 takes 1500");
    assert_eq!(finding.fix, "on pc1: sudo ip link set wl0 mtu 1500");
}

#[test]
fn a_switch_that_drops_long_frames_is_told_from_a_host() {
    let Some(pair) = Pair::or_skip(9000) else { return };
    let Some(()) = filter(&pair.b, "ip length > 4000 drop") else { return };
    let plan = Plan {
        loss_count: 0,
        stream_ms: 0,
        long_len: 0,
        link_pings: 0,
        paused_pings: 0,
        ..short("udp")
    };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    let there = PathMtu { interface: 9000, largest: 4000, beyond: Beyond::Vanishes };
    assert_eq!(result.a_to_b.mtu, Known::Is(there));
    let found = judged(&pair, result);
    let sentence = "pc1 sends frames of 9000 bytes, the switch drops above 4000 (to pc2)";
    assert!(found.iter().any(|finding| finding.sentence == sentence), "{found:?}");
}

#[test]
fn a_firewall_is_named_with_the_ports_that_it_drops_and_the_host_that_has_it() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(()) = filter(&pair.b, "udp dport 47000-47999 drop") else { return };
    let plan = Plan { loss_count: 0, stream_ms: 0, ..short("udp") };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    assert_eq!(result.failure, None);
    let there = result.a_to_b.ports.get().expect("ports");
    assert!(there.arrived.is_empty() && there.refused.is_empty(), "{there:?}");
    let back = result.b_to_a.ports.get().expect("ports");
    assert_eq!(back.arrived, back.asked);
    assert!(!matches!(result.a_to_b.frame.get(), Some(Delivery::Intact(_))));
    let found = judged(&pair, result);
    let fatal: Vec<&Finding> =
        found.iter().filter(|finding| finding.severity == Severity::Fatal).collect();
    // The messages that did not arrive are its effect, and need no second sentence.
    let [finding] = &fatal[..] else { panic!("{found:?}") };
    assert_eq!(finding.sentence, "pc2 drops UDP 47000-47999 from pc1");
    assert_eq!(finding.hosts, ["pc2"]);
    assert!(finding.fix.contains("47000") && finding.fix.contains("on pc2"), "{finding:?}");
}

#[test]
fn a_firewall_that_refuses_says_so_and_part_of_a_range_is_named_as_such() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(()) = filter(&pair.a, "udp dport 47500-47999 reject") else { return };
    let plan = Plan { link: None, mtu: false, long_len: 0, loss_count: 0, ..short("udp") };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    let ports = result.b_to_a.ports.get().expect("ports");
    assert!(!ports.arrived.is_empty() && !ports.refused.is_empty(), "{ports:?}");
    let found = judged(&pair, result);
    let finding = found.iter().find(|finding| finding.code == "ports").expect("found");
    let range = finding.sentence.strip_prefix("pc1 refuses UDP ").expect("its name");
    assert!(range.ends_with("-47999 from pc2") && range.starts_with("475"), "{finding:?}");
}

#[test]
fn losses_are_counted_and_the_card_is_not_blamed_for_a_host_that_drops() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    // Every fourth of the datagrams of 200 bytes.
    let rule = "udp length 208 numgen inc mod 4 0 drop";
    let Some(()) = filter(&pair.b, rule) else { return };
    let plan = Plan { link: None, samples: 0, mtu: false, ..short("udp") };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    let loss = result.a_to_b.loss.get().expect("a flood");
    assert!(loss.sent == 500 && loss.arrived <= 375, "{loss:?}");
    let found = judged(&pair, result);
    let finding = found.iter().find(|finding| finding.code == "loss").expect("found");
    let all = "all reached pc2, which was too busy to take them or has a filter";
    assert!(finding.sentence.contains("from pc1 to pc2") && finding.sentence.ends_with(all));
}

#[test]
fn a_peer_that_is_not_there_is_an_answer() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(()) = filter(&pair.b, "ip protocol udp drop") else { return };
    let plan = Plan { pings: 3, loss_count: 10, ..short("udp") };
    let result = with_sides(&pair, |a, b| measure(a, b, &plan));
    assert_eq!(result.failure, None);
    assert_eq!(result.a_to_b.mtu.reason(), Some("not even short datagrams arrive"));
    assert_eq!(result.plain.reason(), Some("no datagram was answered"));
    assert_eq!(result.link.reason(), Some("messages do not get through the link"));
    assert_eq!(result.a_to_b.loss.get().expect("a flood").arrived, 0);
}

#[test]
fn a_side_that_ends_is_named() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let result = with_sides(&pair, |a, _| {
        let mut ended = Lines::new(&b""[..], Vec::new());
        let b = End { name: "pc2", address: pair.b.ip, side: &mut ended };
        measure(a, b, &short("udp"))
    });
    let why = result.failure.clone().expect("it ended");
    assert_eq!(why, "pc2: its wiglaf host-probe has ended");
    let found = judged(&pair, result);
    assert_eq!(found[0].severity, Severity::Fatal);
    assert!(found[0].sentence.contains("pc1 and pc2 could not be measured"), "{found:?}");
}

#[test]
fn streams_of_both_directions_run_at_once() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let plan = Plan { stream_ms: 200, ..Plan::streams(PORTS) };
    let result = with_sides(&pair, |a, b| stream_together(a, b, &plan));
    for way in [&result.a_to_b, &result.b_to_a] {
        assert!(way.stream_both_mb_s.get().is_some_and(|rate| *rate > 0.0), "{result:?}");
        assert_eq!(way.stream_mb_s.reason(), Some("it was not measured"));
    }
}

#[test]
fn what_is_sent_to_a_group_is_heard_unless_a_filter_takes_it() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let plan = Plan { multicast: true, ..Plan::nothing(PORTS) };
    let heard = || {
        let result = with_sides(&pair, |a, b| measure(a, b, &plan));
        assert_eq!(result.failure, None);
        (result.a_to_b.multicast, result.b_to_a.multicast)
    };
    assert_eq!(heard(), (Known::Is(true), Known::Is(true)));
    if filter(&pair.b, "ip daddr 239.192.0.0/14 drop").is_some() {
        assert_eq!(heard(), (Known::Is(false), Known::Is(true)));
    }
}
