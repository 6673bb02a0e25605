//! Real sockets on loopback and over a veth pair.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use wiglaf_link::{Lane, Link, Sent, Train};
use wiglaf_testnet::Pair;

use super::*;

type Datagrams = Vec<(SocketAddrV4, Vec<u8>)>;

fn open(ip: Ipv4Addr) -> UdpLink {
    UdpLink::open(SocketAddrV4::new(ip, 0)).expect("an address of this machine")
}

fn bulk_address(link: &UdpLink) -> SocketAddrV4 {
    SocketAddrV4::new(*link.local().ip(), link.bulk_port())
}

/// Receives until `count` datagrams are there, or nothing more comes.
fn receive(link: &mut UdpLink, count: usize) -> Datagrams {
    let mut got = Datagrams::new();
    let give_up = Instant::now() + Duration::from_secs(5);
    while got.len() < count && Instant::now() < give_up {
        link.recv(&mut |from, bytes| got.push((from, bytes.to_vec()))).expect("the link works");
    }
    got
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn assert_carries(
    from: &mut UdpLink,
    to: &mut UdpLink,
    lane: Lane,
    segment_len: usize,
    len: usize,
) {
    let bytes = pattern(len);
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

/// The addresses of both lanes of a link that is gone. Other tests have ports of another address, so
/// none gets these.
fn nobody() -> (SocketAddrV4, SocketAddrV4) {
    let gone = open(Ipv4Addr::new(127, 0, 0, 99));
    let addresses = (gone.local(), bulk_address(&gone));
    drop(gone);
    // A process that another test starts has a copy of its sockets until it runs its program.
    while !(refuses(addresses.0) && refuses(addresses.1)) {}
    addresses
}

fn refuses(to: SocketAddrV4) -> bool {
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    probe.connect(to).expect("a way there");
    probe.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket's option");
    let _ = probe.send(b"?");
    let refused = std::io::ErrorKind::ConnectionRefused;
    probe.recv(&mut [0]).is_err_and(|error| error.kind() == refused)
}

/// Waits until `at` is found to be unreachable. The kernel need not have reported it, and has not
/// reported it for the last time, by the time a send returns.
fn is_found_unreachable(link: &mut UdpLink, at: SocketAddrV4) -> bool {
    let give_up = Instant::now() + Duration::from_secs(5);
    while Instant::now() < give_up {
        if link.take_unreachable().is_some_and(|found| found.at == at) {
            return true;
        }
        link.recv(&mut |from, _| panic!("nothing was sent by {from}")).expect("the link works");
    }
    false
}

fn both_lanes(a: &mut UdpLink, b: &mut UdpLink) {
    let frame_len = a.limits().frame_len_max;
    let train = a.limits().bulk_train_max;
    assert_carries(a, b, Lane::Latency, 8, 8);
    assert_carries(b, a, Lane::Latency, frame_len, frame_len);
    assert_carries(a, b, Lane::Latency, 100, 731);
    assert_carries(a, b, Lane::Latency, frame_len, frame_len * BATCH_MAX);
    assert_carries(a, b, Lane::Bulk, frame_len, frame_len * train);
    assert_carries(b, a, Lane::Bulk, frame_len, frame_len * (train - 1) + 1);
    assert_carries(a, b, Lane::Bulk, frame_len, 17);
    assert_carries(a, b, Lane::Bulk, 64, 64 * train);
}

#[test]
fn carries_both_lanes_on_loopback() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    assert_eq!(a.limits().frame_len_max, FRAME_LEN_MAX);
    both_lanes(&mut a, &mut b);
}

#[test]
fn carries_both_lanes_over_a_wire() {
    for (mtu, frame_len_max) in [(1500, 1472), (9000, 8972), (20_000, 8972)] {
        let Some(pair) = Pair::or_skip(mtu) else { return };
        let mut a = pair.a.run(|| open(pair.a.ip));
        let mut b = pair.b.run(|| open(pair.b.ip));
        assert_eq!(a.limits().frame_len_max, frame_len_max);
        both_lanes(&mut a, &mut b);
    }
}

#[test]
fn trains_cross_without_offload() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    a.bulk.disable_offload();
    both_lanes(&mut a, &mut b);
}

/// One system call then brings several of them; none may end up in another's place.
#[test]
fn trains_and_lone_datagrams_wait_together() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = pair.a.run(|| open(pair.a.ip));
    let mut b = pair.b.run(|| open(pair.b.ip));
    let (to, source) = (bulk_address(&b), bulk_address(&a));
    let bytes = pattern(60_000);
    let mut expected = Datagrams::new();
    for turn in 1..=12 {
        for (segment_len, len) in [(1000, turn), (1400, 1400 * turn + 3), (700, 700)] {
            let part = &bytes[turn..turn + len];
            let train = Train { to, lane: Lane::Bulk, segment_len, bytes: part };
            assert_eq!(a.send(&train).expect("the link works"), Sent::All);
            expected.extend(part.chunks(segment_len).map(|segment| (source, segment.to_vec())));
        }
    }
    assert_eq!(receive(&mut b, expected.len()), expected);
}

/// Whether the kernel takes pages; says so where it does not.
fn lends() -> bool {
    let mut link = open(Ipv4Addr::LOCALHOST);
    let (to, bytes) = (SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9), pattern(LENT_LEN));
    let train = Train { to, lane: Lane::Bulk, segment_len: 1400, bytes: &bytes };
    let lends = link.lend(&train).expect("the link works") == Sent::Lent;
    if !lends {
        eprintln!("skipped: this kernel copies what is sent by UDP sockets");
    }
    lends
}

const LENT_LEN: usize = 60_000;

#[test]
fn lent_trains_are_read_when_they_are_received() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    if !lends() {
        return;
    }
    let mut rooms = [vec![1u8; LENT_LEN], vec![2; LENT_LEN], vec![3; 1400]];
    for (room, segment_len) in rooms.iter().zip([1400, 1000, 1400]) {
        let train = Train { to: bulk_address(&b), lane: Lane::Bulk, segment_len, bytes: room };
        let expected = if room.len() == LENT_LEN { Sent::Lent } else { Sent::All };
        assert_eq!(a.lend(&train).expect("the link works"), expected);
    }
    rooms[1].fill(9); // which nobody does who has not been told that it has arrived
    let expected = |bytes: &[u8], len| bytes.chunks(len).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let mut all = expected(&rooms[0], 1400);
    all.extend(expected(&rooms[1], 1000));
    all.push(vec![3; 1400]);
    let got: Vec<_> = receive(&mut b, all.len()).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(got, all);
}

#[test]
fn lent_trains_cross_a_wire() {
    for mtu in [1500, 9000] {
        let Some(pair) = Pair::or_skip(mtu) else { return };
        let mut a = pair.a.run(|| open(pair.a.ip));
        let mut b = pair.b.run(|| open(pair.b.ip));
        both_lanes(&mut a, &mut b); // until then the neighbour is not known
        let segment_len = a.limits().frame_len_max;
        let rooms: Vec<_> = (0..20).map(|i| vec![i; LENT_LEN + usize::from(i)]).collect();
        for room in &rooms {
            let train = Train { to: bulk_address(&b), lane: Lane::Bulk, segment_len, bytes: room };
            let sent = pair.a.run(|| a.lend(&train)).expect("the link works");
            assert_ne!(sent, Sent::Full);
        }
        let expected: Vec<_> = rooms.iter().flat_map(|room| room.chunks(segment_len)).collect();
        let got = receive(&mut b, expected.len());
        assert!(got.iter().map(|(_, bytes)| &bytes[..]).eq(expected), "MTU {mtu}");
    }
}

/// Its pages must not lie in the pipe before those of the next one.
#[test]
fn a_train_that_cannot_be_cut_is_not_lent() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = pair.a.run(|| open(pair.a.ip));
    let mut b = pair.b.run(|| open(pair.b.ip));
    both_lanes(&mut a, &mut b);
    let rooms: Vec<_> = (0..4).map(|i| vec![i; LENT_LEN]).collect();
    let mut expected = Vec::new();
    for (room, segment_len) in rooms.iter().zip([1400, 3000, 1400, 1200]) {
        let train = Train { to: bulk_address(&b), lane: Lane::Bulk, segment_len, bytes: room };
        let sent = pair.a.run(|| a.lend(&train)).expect("the link works");
        assert!(sent == Sent::All || segment_len < 1500, "cut to more than the wire carries");
        expected.extend(room.chunks(segment_len));
    }
    let got = receive(&mut b, expected.len());
    assert!(got.iter().map(|(_, bytes)| &bytes[..]).eq(expected));
}

#[test]
fn nobody_at_the_other_end_of_a_lent_train_is_told() {
    if !lends() {
        return;
    }
    let mut a = open(Ipv4Addr::LOCALHOST);
    let (to, bytes) = (nobody().1, pattern(LENT_LEN));
    let train = Train { to, lane: Lane::Bulk, segment_len: 1400, bytes: &bytes };
    let give_up = Instant::now() + Duration::from_secs(5);
    while a.take_unreachable().is_none_or(|found| found.at != to) {
        assert!(Instant::now() < give_up, "nothing was reported");
        a.lend(&train).expect("a report is no error of the link");
    }
}

#[test]
fn trains_tell_how_long_they_have_been_here() {
    const PAUSE: Duration = Duration::from_millis(20);
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    for (to, lane, len) in [(bulk_address(&b), Lane::Bulk, 5000), (b.local(), Lane::Latency, 1000)]
    {
        let train = Train { to, lane, segment_len: 1000, bytes: &vec![7; len] };
        let began = Instant::now();
        a.send(&train).expect("sent");
        std::thread::sleep(PAUSE);
        let mut told = Vec::new();
        while told.is_empty() {
            b.recv_trains(&mut |train| told.push(train.waited)).expect("the link works");
        }
        let waited = told[0].expect("the kernel tells");
        // By another clock, which may be slewed.
        assert!(waited > PAUSE / 2 && waited < 2 * began.elapsed(), "{lane:?}: {waited:?}");
    }
}

#[test]
fn segments_above_the_mtu_are_fragmented_not_lost() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = pair.a.run(|| open(pair.a.ip));
    let mut b = pair.b.run(|| open(pair.b.ip));
    assert_carries(&mut a, &mut b, Lane::Bulk, 4000, 12_345);
    assert_carries(&mut a, &mut b, Lane::Latency, 4000, 4000);
}

#[test]
fn unreachable_ports_are_found_and_break_nothing() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    let (latency, bulk) = nobody();
    for (lane, to) in [(Lane::Latency, latency), (Lane::Bulk, bulk)] {
        let train = Train { to, lane, segment_len: 4, bytes: b"lost" };
        assert_eq!(a.send(&train).expect("no error of the link"), Sent::All);
        // The report takes the place of the next call, which must not suffer.
        both_lanes(&mut a, &mut b);
        assert!(is_found_unreachable(&mut a, to), "{lane:?}");
        assert_eq!(a.take_unreachable(), None);
    }
}

#[test]
fn reports_found_while_sending_lose_no_train() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    let (latency, bulk) = nobody();
    for (lane, to, target) in
        [(Lane::Latency, latency, b.local()), (Lane::Bulk, bulk, bulk_address(&b))]
    {
        for _ in 0..3 {
            for (to, segment_len) in [(to, 600), (target, 600), (to, 100), (target, 100)] {
                let train = Train { to, lane, segment_len, bytes: &[7; 600] };
                assert_eq!(a.send(&train).expect("no error of the link"), Sent::All);
            }
        }
        assert_eq!(receive(&mut b, 3 * 7).len(), 3 * 7, "{lane:?}");
        assert!(is_found_unreachable(&mut a, to), "{lane:?}");
    }
}

#[test]
fn window_holds_what_it_promises() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = pair.a.run(|| open(pair.a.ip));
    let mut b = pair.b.run(|| open(pair.b.ip));
    // Until the neighbour is found the kernel keeps three trains and drops the others.
    both_lanes(&mut a, &mut b);
    for offload in [true, false] {
        if !offload {
            a.bulk.disable_offload();
        }
        let limits = a.limits();
        let train = vec![5; limits.frame_len_max * limits.bulk_train_max];
        let trains = b.limits().bulk_window_len / train.len();
        assert!(trains > 0, "room for one train at least");
        for _ in 0..trains {
            let to = bulk_address(&b);
            let train =
                Train { to, lane: Lane::Bulk, segment_len: limits.frame_len_max, bytes: &train };
            assert_eq!(a.send(&train).expect("the link works"), Sent::All);
        }
        let expected = trains * limits.bulk_train_max;
        assert_eq!(receive(&mut b, expected).len(), expected, "offload: {offload}");
    }
}

#[test]
fn waiting_descriptors_tell_of_both_lanes() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    // Long idle: the bulk socket is looked at seldom.
    for _ in 0..1000 {
        assert_eq!(b.recv(&mut |_, _| {}).expect("the link works"), 0);
    }
    let train = Train { to: bulk_address(&b), lane: Lane::Bulk, segment_len: 3, bytes: b"abc" };
    assert_eq!(a.send(&train).expect("the link works"), Sent::All);
    assert!(!b.arm(true), "sockets signal by themselves");
    assert_eq!(b.recv(&mut |_, _| {}).expect("the link works"), 1, "the first look after waiting");
    assert_eq!(b.wait_fds().len(), 2);
}

#[test]
fn bulk_arrivals_are_seen_within_a_few_polls() {
    let mut poll = BulkPoll::with_stride(BULK_IDLE_STRIDE);
    let mut worst = 0;
    let mut since = 0;
    for _ in 0..10_000 {
        if poll.is_due(false) {
            poll.found(0);
            worst = worst.max(since);
            since = 0;
        } else {
            since += 1;
        }
    }
    assert_eq!(worst, BULK_IDLE_STRIDE - 1);
    poll.reset();
    let looks: Vec<bool> = (0..10).map(|_| poll.is_due(true)).collect();
    assert_eq!(looks.iter().filter(|due| **due).count(), 2, "a flood elsewhere does not shut it");
    assert!(!looks[0] && poll.is_due(false));
}

#[test]
fn what_was_sent_before_a_train_is_found_before_it() {
    let (mut a, mut b) = (open(Ipv4Addr::LOCALHOST), open(Ipv4Addr::LOCALHOST));
    let frames = [1; 20];
    let to = b.local();
    a.send(&Train { to, lane: Lane::Latency, segment_len: 1, bytes: &frames }).expect("sent");
    let to = SocketAddrV4::new(*to.ip(), b.bulk_port());
    a.send(&Train { to, lane: Lane::Bulk, segment_len: 1, bytes: &[2; 5] }).expect("sent");
    let mut got = Vec::new();
    while got.len() < 25 {
        b.recv(&mut |_, bytes| got.extend_from_slice(bytes)).expect("the link works");
    }
    assert_eq!(got, [[1; 20].as_slice(), &[2; 5]].concat());
}

#[test]
fn a_port_in_use_and_a_foreign_address_are_errors() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let std::net::SocketAddr::V4(at) = taken.local_addr().expect("bound") else {
        unreachable!("bound to an IPv4 address")
    };
    let error = UdpLink::open(at).expect_err("the port is in use");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let error = UdpLink::open(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 0))
        .expect_err("a documentation address");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
}

#[test]
fn interfaces_are_described() {
    let lo = interface::holding(Ipv4Addr::new(127, 0, 0, 9)).expect("readable").expect("loopback");
    assert!(lo.is_loopback && lo.mtu >= 1500);
    assert_eq!(interface::holding(Ipv4Addr::new(192, 0, 2, 1)).expect("readable"), None);
    let Some(pair) = Pair::or_skip(4321) else { return };
    let found = pair.a.run(|| interface::holding(pair.a.ip)).expect("readable").expect("there");
    assert_eq!((found.name.as_str(), found.mtu), (wiglaf_testnet::INTERFACE, 4321));
    assert!(found.is_up && found.mac.is_some() && !found.is_loopback);
    assert!(found.is_neighbour(pair.b.ip) && !found.is_neighbour(pair.a.ip));
    assert!(!found.is_neighbour(Ipv4Addr::new(10, 78, 0, 2)));
}

/// What the kernel has not cut on its way is as many datagrams as if it had.
#[test]
fn a_socket_that_takes_trains_hands_over_their_datagrams() {
    let mut bulk = BulkSocket::open(Ipv4Addr::LOCALHOST).expect("bound");
    let mut frames = FrameSocket::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("bound");
    frames.take_trains();
    let source = SocketAddrV4::new(Ipv4Addr::LOCALHOST, bulk.port());
    let bytes = pattern(20 * 1400 + 9);
    let expected: Datagrams = bytes.chunks(1400).map(|one| (source, one.to_vec())).collect();
    for trains in [1, 3] {
        for _ in 0..trains {
            assert_eq!(bulk.send(frames.local(), 1400, &bytes).expect("sent"), Sent::All);
        }
        let (mut got, mut found) = (Datagrams::new(), 1);
        while found > 0 {
            found = frames
                .recv(&mut |train| {
                    got.extend(train.datagrams().map(|one| (train.from, one.to_vec())));
                })
                .expect("the socket works");
        }
        let expected: Datagrams = vec![expected.clone(); trains].concat();
        assert_eq!(got, expected);
    }
    assert_eq!(frames.lost(), 0);
}
