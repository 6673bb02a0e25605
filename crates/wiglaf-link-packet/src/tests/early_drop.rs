//! The program at the ingress, on a real interface: what it keeps from the IP
//! stack, and what it must not.

use std::net::UdpSocket;

use wiglaf_link_udp::{get_int, set_int};

use super::*;

/// At work on node b's end of the wire, or `None` after saying why not.
fn attach(pair: &Pair) -> Option<EarlyDrop> {
    match pair.b.run(|| EarlyDrop::attach(&interface_of(&pair.b))) {
        Ok(at_work) => Some(at_work),
        Err(why) => {
            eprintln!("skipped: no program at the ingress: {why}");
            None
        }
    }
}

#[test]
fn the_stack_is_spared_what_the_ring_has() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    let port = b.local().port();
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    assert_eq!(pair.b.udp_drops(port), Some(1), "without it the stack has it, too");
    let Some(_at_work) = attach(&pair) else { return };
    for _ in 0..3 {
        assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    }
    assert_carries(&mut a, &mut b, Lane::Latency, 1000, 20 * 1000);
    assert_eq!(pair.b.udp_drops(port), Some(1));
    both_lanes(&mut a, &mut b);
    both_lanes(&mut b, &mut a);
    assert_eq!((b.malformed(), b.overflows(), a.lost()), (0, 0, 0));
}

#[test]
fn others_lose_nothing_by_it() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(_at_work) = attach(&pair) else { return };
    let (mut a, mut udp) = (open(&pair.a), open_udp(&pair.b));
    both_lanes(&mut a, &mut udp);
    // A ring of another interface sees nothing of what comes here.
    let other = Interface { index: interface_of_in(&pair.b).index + 1, ..interface_of_in(&pair.b) };
    let socket = pair.b.run(|| UdpSocket::bind((pair.b.ip, 0))).expect("bound");
    mark(socket.as_fd(), &other).expect("root may");
    assert!(is_heard(&mut a, &socket));
}

/// A site that routes or filters by marks finds its own bits as they were, and the program finds ours.
#[test]
fn marking_a_socket_leaves_the_bits_of_the_site() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(_at_work) = attach(&pair) else { return };
    const OF_SITE: i32 = 0xca6c;
    let of = |socket: &UdpSocket| {
        get_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK).expect("readable")
    };
    let socket = pair.b.run(|| UdpSocket::bind((pair.b.ip, 0))).expect("bound");
    set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, OF_SITE).expect("root may");
    let mut a = open(&pair.a);
    assert!(is_heard(&mut a, &socket));
    mark(socket.as_fd(), &interface_of_in(&pair.b)).expect("root may");
    assert_eq!(of(&socket) as u32 & !MARK_MASK, OF_SITE as u32);
    assert_ne!(of(&socket) as u32 & MARK_MASK, 0);
    // What was found before is believed for one tick.
    std::thread::sleep(Duration::from_millis(50));
    assert!(!is_heard(&mut a, &socket), "the program did not find its mark");
    let other = Interface { index: 1 << 15, ..interface_of_in(&pair.b) };
    assert!(mark(socket.as_fd(), &other).is_err(), "the index does not fit");
}

/// Whoever has the port after a link that was on it, however the link ended.
#[test]
fn a_port_is_free_with_its_socket() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(_at_work) = attach(&pair) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    let at = b.local();
    drop(b);
    let give_up = Instant::now() + Duration::from_secs(5);
    // A program that another test starts has all descriptors until it is under way.
    let socket = loop {
        match pair.b.run(|| UdpSocket::bind(at)) {
            Ok(socket) => break socket,
            Err(error) => assert!(Instant::now() < give_up, "{error}"),
        }
    };
    assert!(is_heard(&mut a, &socket));
    // And nobody's port is answered for.
    drop(socket);
    while a.take_unreachable().is_none_or(|found| found.at != at) {
        let train = Train { to: at, lane: Lane::Latency, segment_len: 4, bytes: b"lost" };
        assert_eq!(a.send(&train).expect("no error of the link"), Sent::All);
        assert!(Instant::now() < give_up, "never found");
    }
}

/// Whether the socket gets what is sent again and again: for one tick of the
/// kernel what was there before is believed.
fn is_heard(from: &mut PacketLink, socket: &UdpSocket) -> bool {
    let to = match socket.local_addr() {
        Ok(std::net::SocketAddr::V4(to)) => to,
        other => panic!("{other:?}"),
    };
    socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a time");
    let train = Train { to, lane: Lane::Latency, segment_len: 4, bytes: b"here" };
    (0..500).any(|_| {
        assert_eq!(from.send(&train).expect("the link works"), Sent::All);
        socket.recv(&mut [0; 8]).is_ok_and(|len| len == 4)
    })
}

/// A frame that the ring does not see is the stack's: no other than those of
/// the ring's filter may be dropped.
#[test]
fn what_no_ring_sees_goes_to_the_stack() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let Some(_at_work) = attach(&pair) else { return };
    let b = open(&pair.b);
    let injector = injector(&pair.a);
    let ends = ends_of(&pair, &b);
    let mut good = headers(&ends, 16).expect("it fits").to_vec();
    good.extend_from_slice(&[7; 16]);
    let send = |frame: &[u8]| injector.send(&[&offload::NONE, frame].concat()).expect("sent");
    send(&good);
    // The filter of the socket beside the ring keeps out what comes there, and counts it.
    let heard = || pair.b.udp_drops(ends.to.port()).expect("the socket");
    assert_eq!(heard(), 0);
    // IP options: an end of them, and then what looks like the port.
    let [high, low] = ends.to.port().to_be_bytes();
    let mut with_options = good.clone();
    with_options.splice(34..34, [0, 0, high, low]);
    with_options[14] = 0x46;
    with_options[17] += 4;
    send(&summed(with_options));
    assert_eq!(heard(), 1);
    // Two fragments, of which the first has the port. The second begins 16 bytes behind the header.
    let (mut first, mut second) = (good[..50].to_vec(), good[..34].to_vec());
    (first[17], first[20]) = (20 + 16, 0x20);
    second.extend_from_slice(&good[50..]);
    (second[17], second[21]) = (20 + 8, 2);
    send(&summed(first));
    send(&summed(second));
    assert_eq!(heard(), 2);
}

/// The frame with the right sum in its IP header (RFC 1071).
fn summed(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let header = &frame[14..14 + usize::from(frame[14] & 0xf) * 4];
    let checksum = !frame::sum(header);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}
