//! Choosing in real namespaces, and the bare links against each other.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use wiglaf_testnet::Pair;

use super::*;
use crate::floor;

fn fresh_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    (0xc0 << 56) | (u64::from(std::process::id()) << 24) | NEXT.fetch_add(1, Ordering::Relaxed)
}

fn open(ip: Ipv4Addr, port: u16, choice: LinkKind) -> Result<Opened, OpenError> {
    open_links(SocketAddrV4::new(ip, port), fresh_epoch(), choice)
}

fn names(opened: &Opened) -> (Option<&'static str>, Option<&'static str>) {
    (opened.net.as_ref().map(Link::name), opened.shm.as_ref().map(Link::name))
}

fn give_up_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("capabilities can be given up");
}

#[test]
fn the_best_that_works_is_chosen() {
    let loopback = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Auto).expect("loopback works");
    assert_eq!(names(&loopback), (Some("udp"), Some("shm")));
    let Some(pair) = Pair::or_skip(1500) else { return };
    let unspecified = Ipv4Addr::UNSPECIFIED;
    pair.a.run(|| {
        let root = open(unspecified, 0, LinkKind::Auto).expect("a wire");
        assert_eq!(names(&root), (Some("packet"), Some("shm")));
        let (net, shm) = (root.net.expect("packet"), root.shm.expect("shm"));
        assert_eq!(*net.local().ip(), pair.a.ip);
        assert_eq!(net.local(), shm.local());
        give_up_capabilities();
        let user = open(unspecified, 0, LinkKind::Auto).expect("a wire");
        assert_eq!(names(&user), (Some("udp"), Some("shm")));
        let error = open(unspecified, 0, LinkKind::Packet).expect_err("not permitted");
        assert!(matches!(error, OpenError::PacketNotPermitted(_)), "{error}");
        let error = open(unspecified, 0, LinkKind::Xdp).expect_err("not permitted");
        assert!(matches!(error, OpenError::Xdp(XdpError::NotPermitted)), "{error}");
    });
}

#[test]
fn what_is_asked_for_is_what_is_opened() {
    let udp = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Udp).expect("loopback works");
    assert_eq!(names(&udp), (Some("udp"), None));
    let shm = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Shm).expect("shared memory works");
    assert_eq!(names(&shm), (None, Some("shm")));
    let at = shm.shm.as_ref().expect("shm").local();
    assert_ne!(at.port(), 0);
    let error = open(*at.ip(), at.port(), LinkKind::Udp).expect_err("reserved");
    assert!(matches!(error, OpenError::PortInUse(in_use) if in_use == at), "{error}");
}

#[test]
fn ranks_beyond_the_last_queue_take_the_packet_link() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let open = |choice| pair.a.run(|| open(pair.a.ip, 0, choice).expect("a wire"));
    let first = open(LinkKind::Xdp);
    assert_eq!((names(&first).0, &first.note), (Some("xdp-generic"), &None));
    for choice in [LinkKind::Xdp, LinkKind::XdpGeneric] {
        let other = open(choice);
        assert_eq!(names(&other).0, Some("packet"));
        assert!(other.note.as_ref().is_some_and(|note| note.contains("one queue")), "{other:?}");
    }
    drop(first);
    assert_eq!(names(&open(LinkKind::XdpNative)).0, Some("xdp-native"));
}

#[test]
fn what_was_measured_decides_and_what_fails_is_passed_over() {
    use LinkKind::{Packet, Udp, XdpGeneric, XdpNative, XdpZeroCopy};
    let Some(pair) = Pair::or_skip(1500) else { return };
    let at = Place::from(pair.a.ip);
    let best = |order: &[LinkKind]| {
        let interface = interface_for(pair.a.ip).expect("a wire");
        open_best(&interface, at, order, &mut None).expect("a wire")
    };
    pair.a.run(|| {
        for (order, expected) in [
            (&[][..], "packet"),
            (&[XdpGeneric, Packet, Udp], "xdp-generic"),
            (&[XdpZeroCopy, XdpNative, Packet], "xdp-native"),
            (&[XdpZeroCopy, Udp, Packet], "udp"),
        ] {
            assert_eq!(best(order).name(), expected, "{order:?}");
        }
        let first = best(&[XdpGeneric, Udp]);
        assert_eq!(best(&[XdpGeneric, Udp]).name(), "udp", "{} has the queue", first.name());
    });
}

#[test]
fn a_machine_with_loopback_only_gets_that() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    pair.a.ip(&["link", "del", wiglaf_testnet::INTERFACE]).expect("deleted");
    let open = |ip, choice| pair.a.run(|| open(ip, 0, choice)).expect("loopback");
    // The provider is asked for the address first, and then opens at it.
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
        for choice in [LinkKind::Auto, LinkKind::Udp] {
            let opened = open(ip, choice);
            let note = opened.note.as_deref().unwrap_or_default();
            assert!(note.starts_with("only ranks on this machine are reached"), "{note}");
            assert_eq!(*opened.net.expect("udp").local().ip(), Ipv4Addr::LOCALHOST);
        }
        assert_eq!(open(ip, LinkKind::Shm).note, None, "which reaches no other anyway");
    }
}

#[test]
fn who_chooses_loopback_where_there_is_more_is_told_nothing() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let opened = pair.a.run(|| open(Ipv4Addr::LOCALHOST, 0, LinkKind::Auto));
    assert_eq!(opened.expect("loopback").note, None);
}

#[test]
fn all_ports_that_peers_send_to_are_of_the_range_that_was_given() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let ports = Ports::named("47000-47005").expect("a range");
    let place = Place { ports: Some(ports), ..Place::from(pair.a.ip) };
    let open = |choice| pair.a.run(|| open_links(place, fresh_epoch(), choice));
    let mut opened = Vec::new();
    for choice in [LinkKind::Udp, LinkKind::Packet, LinkKind::Xdp] {
        let links = open(choice).expect("a wire");
        let net = links.net.as_ref().expect("a link");
        for port in [net.local().port(), net.bulk_port()] {
            assert!(ports.has(port), "{choice:?} has port {port}");
        }
        opened.push(links);
    }
    for choice in [LinkKind::Udp, LinkKind::Packet, LinkKind::Xdp, LinkKind::Shm] {
        let error = open(choice).expect_err("three ranks have them all").to_string();
        assert!(error.starts_with("all UDP ports 47000-47005 of 10.77.0.1 are in use"), "{error}");
        assert!(error.contains("WIGLAF_PORTS"), "{error}");
    }
}

#[test]
fn where_there_are_two_networks_it_is_said_which_one_is_taken() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    assert_eq!(pair.a.run(unchosen_network), None, "there is one");
    let ip = |args: &str| pair.a.ip(&args.split(' ').collect::<Vec<_>>()).expect("made");
    ip("link add data0 type veth peer name data1");
    ip("address add 192.168.77.1/24 dev data0");
    ip("link set data0 up");
    assert_eq!(
        pair.a.run(unchosen_network),
        None,
        "its other end is down: nothing is reached there"
    );
    ip("link set data1 up");
    ip("address add 10.77.0.9/24 dev wl0");
    let text = pair.a.run(unchosen_network).expect("two");
    for part in ["10.77.0.0/24 on wl0 is used", "192.168.77.0/24 on data0", "WIGLAF_NET="] {
        assert!(text.contains(part), "{text}");
    }
    ip("link set wl0 down");
    assert_eq!(pair.a.run(unchosen_network), None, "what is down is no choice");
}

#[test]
fn an_interface_without_a_cable_is_not_the_first_choice() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let ip = |args: &str| pair.a.ip(&args.split(' ').collect::<Vec<_>>()).expect("made");
    ip("link add data0 type veth peer name data1");
    ip("address add 192.168.77.1/24 dev data0");
    ip("link set data0 up");
    ip("link set data1 up");
    let chosen = || pair.a.run(|| address_for(Ipv4Addr::UNSPECIFIED)).expect("there is one");
    assert_eq!(chosen(), pair.a.ip);
    pair.b.ip(&["link", "set", wiglaf_testnet::INTERFACE, "down"]).expect("the other end is out");
    assert_eq!(chosen(), Ipv4Addr::new(192, 168, 77, 1));
    ip("link set data1 down");
    assert_eq!(chosen(), pair.a.ip, "where nothing is connected, the first that is up");
}

#[test]
fn refusals_name_cause_and_mend() {
    let missing = open(Ipv4Addr::new(192, 0, 2, 1), 0, LinkKind::Auto).expect_err("not here");
    let text = missing.to_string();
    assert!(text.starts_with("192.0.2.1 is not an address of this machine; choose one of: "));
    assert!(text.contains("127.0.0.1"), "{text}");
    let first = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Udp).expect("loopback works");
    let port = first.net.as_ref().expect("udp").local().port();
    for choice in [LinkKind::Auto, LinkKind::Udp, LinkKind::Shm] {
        let error = open(Ipv4Addr::LOCALHOST, port, choice).expect_err("in use").to_string();
        let expected =
            format!("UDP port {port} of 127.0.0.1 is in use; choose another, or 0 for any");
        assert_eq!(error, expected);
    }
    let error = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Packet).expect_err("no Ethernet");
    assert!(error.to_string().starts_with("the packet link works on Ethernet"), "{error}");
    let error = open(Ipv4Addr::LOCALHOST, 0, LinkKind::Xdp).expect_err("no Ethernet");
    assert!(error.to_string().starts_with("the xdp link works on Ethernet"), "{error}");
    let Some(pair) = Pair::or_skip(1500) else { return };
    let error = pair.a.run(|| open(pair.a.ip, 0, LinkKind::XdpZeroCopy)).expect_err("a veth");
    let text = error.to_string();
    assert!(text.contains("has no zero-copy mode") && text.ends_with("udp link"), "{text}");
}

#[test]
fn bare_links_measure_each_other() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let choices = [
        (LinkKind::Udp, LinkKind::Udp),
        (LinkKind::Packet, LinkKind::Udp),
        (LinkKind::Udp, LinkKind::Packet),
        (LinkKind::Packet, LinkKind::Packet),
        (LinkKind::XdpGeneric, LinkKind::XdpGeneric),
        (LinkKind::XdpNative, LinkKind::XdpNative),
        (LinkKind::Xdp, LinkKind::Udp),
        (LinkKind::Udp, LinkKind::XdpNative),
        (LinkKind::Packet, LinkKind::Xdp),
        (LinkKind::Shm, LinkKind::Shm),
    ];
    for (port, (server, client)) in (7000u16..).step_by(2).zip(choices) {
        let is_shm = server == LinkKind::Shm;
        let client_node = if is_shm { &pair.b } else { &pair.a };
        let at = SocketAddrV4::new(pair.b.ip, port);
        let from = SocketAddrV4::new(client_node.ip, port + 1);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                pair.b.enter();
                let mut link = floor::open(at, from, server).expect("opened");
                floor::serve(link.as_mut(), from)
            });
            client_node.run(|| {
                let mut link = floor::open(from, at, client).expect("opened");
                let latency = floor::ping(link.as_mut(), at, 8, 200).expect("answered");
                assert!(latency.p50 <= latency.p99 && !latency.p50.is_zero());
                let rate = floor::stream(link.as_mut(), at, 32 << 20).expect("nothing lost");
                assert!(rate.is_finite() && rate > 0.0);
                floor::bye(link.as_mut(), at).expect("sent");
            });
            serving.join().expect("no panic").expect("served");
        });
    }
}

#[test]
fn an_absent_server_is_an_error() {
    let (at, from) =
        (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let mut link = floor::open(from, at, LinkKind::Udp).expect("loopback works");
    let error = floor::ping(link.as_mut(), at, 8, 1).expect_err("nobody there");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_missing_key_is_said_where_other_machines_are_reached() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let warned = |variables: &[(&str, &str)]| {
        let look_up =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        pair.a.run(|| crate::warnings(&crate::config_from(look_up).expect("nothing wrong")))
    };
    let [only] = &warned(&[])[..] else { panic!("one thing is missing") };
    assert!(only.starts_with("WIGLAF_KEY is not set"), "{only}");
    let key = ("WIGLAF_KEY", "000102030405060708090a0b0c0d0e0f");
    for variables in [&[key][..], &[("WIGLAF_IF", "lo")], &[("WIGLAF_LINK", "shm")]] {
        assert_eq!(warned(variables), [""; 0], "{variables:?}");
    }
}
