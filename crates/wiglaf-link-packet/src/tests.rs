//! Real frames over a veth pair, against itself and against plain sockets.

use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use wiglaf_link_udp::{UdpLink, interface};
use wiglaf_testnet::{INTERFACE, Node, Pair};

mod early_drop;
mod stuck;

use super::*;
use ring::PLACE_COUNT;
use wiglaf_link::frame::{Ends, headers};

type Datagrams = Vec<(SocketAddrV4, Vec<u8>)>;

/// To be called on a thread of the node.
fn interface_of(node: &Node) -> Interface {
    interface::holding(node.ip).expect("readable").expect("the node has its address")
}

fn open(node: &Node) -> PacketLink {
    node.run(|| PacketLink::open(interface_of(node), SocketAddrV4::new(node.ip, 0)))
        .expect("root may open packet sockets")
}

fn open_udp(node: &Node) -> UdpLink {
    node.run(|| UdpLink::open(SocketAddrV4::new(node.ip, 0))).expect("an address of the node")
}

fn bulk_address(link: &dyn Link) -> SocketAddrV4 {
    SocketAddrV4::new(*link.local().ip(), link.bulk_port())
}

fn receive(link: &mut dyn Link, count: usize) -> Datagrams {
    let mut got = Datagrams::new();
    let give_up = Instant::now() + Duration::from_secs(5);
    while got.len() < count && Instant::now() < give_up {
        link.recv(&mut |from, bytes| got.push((from, bytes.to_vec()))).expect("the link works");
    }
    got
}

fn assert_carries(
    from: &mut dyn Link,
    to: &mut dyn Link,
    lane: Lane,
    segment_len: usize,
    len: usize,
) {
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
    let (target, source) = match lane {
        Lane::Latency => (to.local(), from.local()),
        Lane::Bulk => (bulk_address(to), bulk_address(from)),
    };
    let train = Train { to: target, lane, segment_len, bytes: &bytes };
    assert_eq!(from.send(&train).expect("the link works"), Sent::All);
    let got = receive(to, len.div_ceil(segment_len));
    let expected: Datagrams =
        bytes.chunks(segment_len).map(|segment| (source, segment.to_vec())).collect();
    assert_eq!(got, expected, "{lane:?}, {len} bytes in segments of {segment_len}");
}

fn both_lanes(a: &mut dyn Link, b: &mut dyn Link) {
    let frame_len = a.limits().frame_len_max;
    let (small, train) = (BATCH_MAX, a.limits().bulk_train_max);
    for _ in 0..3 {
        assert_carries(a, b, Lane::Latency, 1, 1);
        assert_carries(b, a, Lane::Latency, 8, 8);
    }
    assert_carries(b, a, Lane::Latency, frame_len, frame_len);
    assert_carries(a, b, Lane::Latency, 100, 731);
    assert_carries(a, b, Lane::Latency, frame_len, frame_len * small);
    // More than are sent or taken at once, and as many as there are places.
    assert_carries(a, b, Lane::Latency, 8, 8 * PLACE_COUNT - 1);
    assert_carries(a, b, Lane::Bulk, frame_len, frame_len * train);
    assert_carries(b, a, Lane::Bulk, frame_len, frame_len * (train - 1) + 1);
}

#[test]
fn carries_both_lanes() {
    for mtu in [1500, 9000, 20_000] {
        let Some(pair) = Pair::or_skip(mtu) else { return };
        let (mut a, mut b) = (open(&pair.a), open(&pair.b));
        both_lanes(&mut a, &mut b);
        assert!(matches!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Ring(_)));
        assert_eq!((a.malformed(), a.overflows(), a.lost()), (0, 0, 0));
    }
}

/// What the next look at the link brings.
fn receive_trains(link: &mut dyn Link, datagrams: usize) -> Vec<usize> {
    let mut counts = Vec::new();
    let give_up = Instant::now() + Duration::from_secs(5);
    while counts.iter().sum::<usize>() < datagrams && Instant::now() < give_up {
        link.recv_trains(&mut |train| counts.push(train.datagrams().count()))
            .expect("the link works");
    }
    counts
}

/// What the ring and the socket beside it both have comes twice, as on any network.
#[test]
fn nothing_is_lost_while_the_ring_is_set_up() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let soon = |node: &Node| {
        let at = SocketAddrV4::new(node.ip, 0);
        node.run(|| PacketLink::open_soon(interface_of(node), at)).expect("root may")
    };
    let (mut a, mut b) = (soon(&pair.a), soon(&pair.b));
    let (to, give_up) = (b.local(), Instant::now() + Duration::from_secs(10));
    let is_there = |link: &PacketLink| link.ring.ring().is_some();
    let (mut sent, mut after) = (0_u64, 0);
    while after < 100 {
        assert!(Instant::now() < give_up, "no ring");
        let bytes = sent.to_be_bytes();
        let train = Train { to, lane: Lane::Latency, segment_len: 8, bytes: &bytes };
        assert_eq!(a.send(&train).expect("the link works"), Sent::All);
        let mut is_here = false;
        while !is_here && Instant::now() < give_up {
            b.recv(&mut |_, got| is_here |= got == bytes).expect("the link works");
        }
        assert!(is_here, "datagram {sent}, {after} after the rings were there");
        a.recv(&mut |_, _| {}).expect("the link works");
        sent += 1;
        after += u64::from(is_there(&a) && is_there(&b));
    }
}

#[test]
fn frames_tell_how_long_they_have_been_here() {
    const PAUSE: Duration = Duration::from_millis(20);
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8); // learns the Ethernet address
    let began = Instant::now();
    assert_eq!(
        a.send(&Train { to: b.local(), lane: Lane::Latency, segment_len: 8, bytes: &[7; 8] })
            .expect("sent"),
        Sent::All
    );
    std::thread::sleep(PAUSE);
    let mut told = Vec::new();
    while told.is_empty() {
        b.recv_trains(&mut |train| told.push(train.waited)).expect("the link works");
    }
    let waited = told[0].expect("the kernel tells");
    // By another clock, which may be slewed.
    assert!(waited > PAUSE / 2 && waited < 2 * began.elapsed(), "{waited:?}");
}

#[test]
fn short_trains_cross_as_one_where_nothing_cuts_them() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    let (most, len) = (a.limits().latency_train_max, a.limits().frame_len_max);
    assert_eq!(most, 44, "as many as an IPv4 packet holds");
    assert_carries(&mut a, &mut b, Lane::Latency, len, len * most);
    assert_carries(&mut a, &mut b, Lane::Latency, len, len * (most - 1) + 1);
    let bytes = vec![7; len * most];
    let train = Train { to: b.local(), lane: Lane::Latency, segment_len: len, bytes: &bytes };
    a.send(&train).expect("the link works");
    assert_eq!(receive_trains(&mut b, most), [most]);
    assert!(!a.trial.is_paused(), "the interface took it");
    // Links that take no trains pass on to the stack what is longer than a frame, and nothing else.
    for (count, trains) in [(14, vec![1; 14]), (15, vec![15])] {
        let short = Train { segment_len: 100, bytes: &bytes[..100 * count], ..train };
        a.send(&short).expect("the link works");
        assert_eq!(receive_trains(&mut b, count), trains);
    }
    // An interface that takes no longer frames: the kernel refuses trains past its queue.
    pair.a.ip(&["link", "set", INTERFACE, "gso_max_size", "2000"]).expect("set");
    assert_carries(&mut a, &mut b, Lane::Latency, len, len * most);
    a.send(&train).expect("the link works");
    assert_eq!(receive_trains(&mut b, most), vec![1; most]);
    assert_eq!(a.limits().latency_train_max, 1, "others go to the bulk port for a while");
    assert_eq!((a.lost(), b.malformed(), b.overflows()), (0, 0, 0));
}

/// Cutting them first, to drop each datagram, would take the kernel half as long again as all the rest.
#[test]
fn the_socket_beside_the_ring_drops_a_train_as_one() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    let port = b.local().port();
    let drops = || pair.b.udp_drops(port).expect("the socket");
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8); // learns the Ethernet address
    let before = drops();
    assert_carries(&mut a, &mut b, Lane::Latency, 1000, 20 * 1000);
    assert_eq!(drops() - before, 1);
}

/// As kernels before 6.2 have it.
#[test]
fn without_trains_each_datagram_goes_alone() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let without = |node: &Node| {
        node.run(|| {
            let plain = FrameSocket::open(SocketAddrV4::new(node.ip, 0)).expect("bound");
            let bulk = BulkSocket::open(node.ip).expect("bound");
            let interface = interface_of(node);
            let packet = open_packet_socket(&interface, plain.local()).expect("root may");
            PacketLink::begin(false, packet, plain, bulk, interface)
                .and_then(PacketLink::with_ring)
                .expect("opened")
        })
    };
    let (mut a, mut b, mut udp) = (without(&pair.a), without(&pair.b), open_udp(&pair.b));
    assert_eq!(a.limits().latency_train_max, 1);
    both_lanes(&mut a, &mut b);
    both_lanes(&mut a, &mut udp);
    assert_eq!((a.lost(), b.malformed(), b.overflows()), (0, 0, 0));
}

#[test]
fn plain_sockets_understand_it() {
    for mtu in [1500, 9000] {
        let Some(pair) = Pair::or_skip(mtu) else { return };
        let (mut packet, mut udp) = (open(&pair.a), open_udp(&pair.b));
        both_lanes(&mut packet, &mut udp);
        both_lanes(&mut udp, &mut packet);
    }
}

#[test]
fn frames_do_not_pass_through_the_stack() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    let sent_by_stack = |node: &Node| {
        let counters = node.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
        let counters = counters.expect("readable");
        let line = counters.lines().filter(|line| line.starts_with("Udp:")).nth(1);
        line.expect("UDP counters").split(' ').nth(4).expect("OutDatagrams").to_owned()
    };
    let before = sent_by_stack(&pair.a);
    for _ in 0..100 {
        assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    }
    assert_eq!(sent_by_stack(&pair.a), before);
}

#[test]
fn ranks_on_one_address_reach_each_other() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.a));
    both_lanes(&mut a, &mut b);
}

#[test]
fn gateways_are_the_stacks_business() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let beyond = std::net::Ipv4Addr::new(10, 99, 0, 1);
    pair.b.ip(&["address", "add", "10.99.0.1/32", "dev", INTERFACE]).expect("an address");
    pair.a.ip(&["route", "add", "10.99.0.0/24", "via", "10.77.0.2"]).expect("a route");
    let mut a = open(&pair.a);
    let mut b = pair.b.run(|| UdpLink::open(SocketAddrV4::new(beyond, 0))).expect("bound");
    both_lanes(&mut a, &mut b);
    assert_eq!(a.routes.way(a.plain.as_fd(), beyond), Way::Stack);
}

#[test]
fn a_changed_ethernet_address_is_learnt() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut udp) = (open(&pair.a), open_udp(&pair.b));
    assert_carries(&mut a, &mut udp, Lane::Latency, 8, 8);
    assert_carries(&mut a, &mut udp, Lane::Latency, 8, 8);
    let Way::Ring(old) = a.routes.way(a.plain.as_fd(), pair.b.ip) else { panic!("not resolved") };
    pair.b.ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:42"]).expect("set");
    // What the peer announces, or the kernel finds out, ends up here.
    let change = ["neigh", "replace", "10.77.0.2", "lladdr", "02:00:00:00:00:42", "dev", INTERFACE];
    pair.a.ip(&change).expect("replaced");
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let train = Train { to: udp.local(), lane: Lane::Latency, segment_len: 8, bytes: &[1; 8] };
        a.send(&train).expect("the link works");
        let mut got = 0;
        udp.recv(&mut |_, _| got += 1).expect("the link works");
        if got > 0 {
            break;
        }
        assert!(Instant::now() < give_up, "still sending to the old address");
        std::thread::sleep(Duration::from_millis(10));
    }
    let Way::Ring(new) = a.routes.way(a.plain.as_fd(), pair.b.ip) else { panic!("not resolved") };
    assert_ne!(new, old);
}

#[test]
fn a_renamed_interface_is_the_same_interface() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    both_lanes(&mut a, &mut b);
    let before = interface_of_in(&pair.a);
    let renamed = "lan0";
    if let Err(reason) = pair.a.ip(&["link", "set", INTERFACE, "name", renamed]) {
        eprintln!("skipped: an interface that is up takes no name before Linux 6.2: {reason}");
        return;
    }
    // As after the time for which an Ethernet address is believed: the kernel is asked by name.
    let forget = |a: &mut PacketLink| {
        a.routes = Routes::new(before.clone(), before.mac.expect("Ethernet"), a.local());
    };
    forget(&mut a);
    both_lanes(&mut a, &mut b);
    assert!(matches!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Ring(_)));
    pair.a.ip(&["link", "delete", renamed]).expect("deleted");
    forget(&mut a);
    assert_eq!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Gone);
}

#[test]
fn unreachable_ports_are_found() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = open(&pair.a);
    let mut b = open(&pair.b);
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    let gone = open(&pair.b);
    let to = gone.local();
    drop(gone);
    let train = Train { to, lane: Lane::Latency, segment_len: 4, bytes: b"lost" };
    assert!(matches!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Ring(_)));
    let give_up = Instant::now() + Duration::from_secs(5);
    let mut next = Instant::now();
    let found = loop {
        // The kernel answers so many a second, of all tests together.
        if Instant::now() >= next {
            next += Duration::from_millis(200);
            assert_eq!(a.send(&train).expect("no error of the link"), Sent::All);
        }
        if let Some(found) = a.take_unreachable() {
            break found.at;
        }
        assert!(Instant::now() < give_up, "never found");
    };
    assert_eq!(found, to);
    both_lanes(&mut a, &mut b);
}

#[test]
fn no_listener_is_answered_for_an_open_port() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut udp, mut packet) = (open_udp(&pair.a), open(&pair.b));
    for _ in 0..50 {
        assert_carries(&mut udp, &mut packet, Lane::Latency, 8, 8);
    }
    // Over a veth pair an answer is there before the send returns.
    udp.recv(&mut |_, _| {}).expect("the link works");
    assert_eq!(udp.take_unreachable(), None);
}

/// A packet socket in `node` that sees nothing and sends anything.
fn injector(node: &Node) -> Ring {
    let nowhere = SocketAddrV4::new(node.ip, 9);
    node.run(|| open_packet_socket(&interface_of(node), nowhere))
        .and_then(|socket| Ring::new(socket, true).map_err(|(_, error)| error))
        .expect("root may open packet sockets")
}

/// Of frames from port 777 of node a to the link on node b.
fn ends_of(pair: &Pair, b: &PacketLink) -> Ends {
    Ends {
        from_mac: interface_of_in(&pair.a).mac.expect("Ethernet"),
        to_mac: interface_of_in(&pair.b).mac.expect("Ethernet"),
        from: SocketAddrV4::new(pair.a.ip, 777),
        to: b.local(),
    }
}

#[test]
fn malformed_frames_are_dropped_and_counted() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut b = open(&pair.b);
    let injector = injector(&pair.a);
    let ends = ends_of(&pair, &b);
    let from = ends.from;
    let mut good = headers(&ends, 5).expect("it fits").to_vec();
    good.extend_from_slice(b"hello");
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let refused_by_parser = [
        with(17, 0xff),               // IP length beyond the frame
        with(24, good[24] ^ 1),       // IP checksum
        with(38, 0xff),               // UDP length beyond the packet
        with(39, 3),                  // UDP length below its header
        good[..HEADERS_LEN].to_vec(), // cut behind the headers
    ];
    let refused_by_filter = [
        with(14, 0x46),       // IP options
        with(20, 0x20),       // fragment
        with(23, 6),          // TCP
        with(0, good[0] ^ 4), // another host's Ethernet address
        good[..30].to_vec(),  // cut within the headers
    ];
    for frame in refused_by_parser.iter().chain(&refused_by_filter).chain([&good]) {
        injector.send(&[&offload::NONE, frame.as_slice()].concat()).expect("sent");
    }
    assert_eq!(receive(&mut b, 1), [(from, b"hello".to_vec())]);
    assert_eq!(b.malformed(), refused_by_parser.len() as u64);
}

/// The stack takes them, too, so they are for the ring: the socket beside it is deaf to this interface.
#[test]
fn frames_with_a_priority_and_no_vlan_arrive() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut b = open(&pair.b);
    let injector = injector(&pair.a);
    let ends = ends_of(&pair, &b);
    let from = ends.from;
    let tagged = |tag: u16, payload: &[u8; 5]| {
        let plain = headers(&ends, 5).expect("it fits");
        let (addresses, rest) = plain.split_at(12);
        let (kind, tag) = ([0x81, 0], tag.to_be_bytes());
        let parts: [&[u8]; 6] = [&offload::NONE, addresses, &kind, &tag, rest, payload];
        parts.concat()
    };
    let (urgent, vlan_3) = (tagged(5 << 13, b"hello"), tagged(5 << 13 | 3, b"other"));
    for frame in [&vlan_3, &urgent, &vlan_3, &urgent] {
        injector.send(frame).expect("sent");
    }
    assert_eq!(receive(&mut b, 2), vec![(from, b"hello".to_vec()); 2]);
    assert_eq!(b.malformed(), 0);
}

/// The kernel joins datagrams to packets as long as that, at some MTUs.
#[test]
fn the_longest_packet_of_ipv4_fits_a_place() {
    let Some(pair) = Pair::or_skip(65_535) else { return };
    let (mut a, mut b) = (open_udp(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 65_507, 65_507);
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    assert_eq!((b.malformed(), b.overflows()), (0, 0));
}

#[test]
fn an_overflown_ring_loses_frames_and_goes_on() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open_udp(&pair.a), open(&pair.b));
    let train = Train { to: b.local(), lane: Lane::Latency, segment_len: 8, bytes: &[1; 8 * 32] };
    for _ in 0..200 {
        assert_eq!(a.send(&train).expect("sent"), Sent::All);
    }
    let mut kept = 0;
    assert_eq!(b.recv(&mut |_, _| kept += 1).expect("the link works"), 32);
    assert!(!b.is_quiet(), "some wait here yet");
    while b.recv(&mut |_, _| kept += 1).expect("the link works") > 0 {}
    assert!((PLACE_COUNT as u64..200 * 32).contains(&kept), "{kept} frames kept");
    let mut is_quiet = || {
        assert_eq!(b.recv(&mut |_, _| {}).expect("the link works"), 0);
        b.is_quiet()
    };
    // The sockets beside the ring are looked at first.
    assert!((0..3).any(|_| is_quiet()));
    assert!(b.was_overrun(), "who finds a whole ring full asks");
    assert!(!b.was_overrun(), "that has been told");
    assert_eq!(b.overflows(), 200 * 32 - kept);
    // None of those that arrive later are counted again.
    for _ in 0..5000 {
        assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
        assert_eq!(b.overflows(), 200 * 32 - kept);
        assert_eq!(b.take_unreachable(), None);
    }
}

/// Those of the calling thread.
fn give_up_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("capabilities can be given up");
}

#[test]
fn passed_sockets_take_no_privilege() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let interface = interface_of_in(&pair.a);
    let at = SocketAddrV4::new(pair.a.ip, 4321);
    // As a helper would.
    let packet = pair.a.run(|| open_packet_socket(&interface, at)).expect("root may");
    let mut a = pair.a.run(|| {
        give_up_capabilities();
        open_packet_socket(&interface, at).expect_err("no longer permitted");
        let plain = FrameSocket::open(at).expect("bound");
        let bulk = BulkSocket::open(*at.ip()).expect("bound");
        PacketLink::from_sockets(packet, plain, bulk, interface.clone()).expect("opened")
    });
    let mut b = open(&pair.b);
    both_lanes(&mut a, &mut b);
    both_lanes(&mut b, &mut a);
}

fn interface_of_in(node: &Node) -> Interface {
    node.run(|| interface_of(node))
}

#[test]
fn waiting_descriptors_tell_of_frames() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    for _ in 0..1000 {
        b.recv(&mut |_, _| {}).expect("the link works");
    }
    assert!(!b.arm(true));
    let is_readable = |link: &PacketLink| {
        let mut fds: Vec<libc::pollfd> = link
            .wait_fds()
            .iter()
            .map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY: the array is live and of the stated length.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) > 0 }
    };
    assert!(!is_readable(&b));
    for lane in [Lane::Latency, Lane::Bulk] {
        let to = if lane == Lane::Bulk { bulk_address(&b) } else { b.local() };
        let train = Train { to, lane, segment_len: 3, bytes: b"abc" };
        assert_eq!(a.send(&train).expect("sent"), Sent::All);
        assert!(is_readable(&b), "{lane:?}");
        assert_eq!(b.arm(true), lane == Lane::Latency, "the ring can be looked into");
        assert_eq!(b.recv(&mut |_, _| {}).expect("the link works"), 1);
        assert!(!is_readable(&b), "{lane:?}");
    }
}

#[test]
fn loopback_is_no_ethernet() {
    let lo = interface::holding(std::net::Ipv4Addr::LOCALHOST).expect("readable").expect("there");
    let result = PacketLink::open(lo, SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0));
    assert!(matches!(result, Err(OpenError::NotEthernet)));
}
