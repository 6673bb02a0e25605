//! Links in trouble: one without room for one of several peers, and one that fails for good.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wiglaf_endpoint::{
    Address, Class, CompleteWhen, Completion, Endpoint, Epoch, JobKey, Nap, Outcome, PeerId,
    PostError, RecvOp, Region, SendOp, Setup, Side,
};
use wiglaf_link::Link;
use wiglaf_link::fault::{Fault, Rates};
use wiglaf_link_packet::PacketLink;
use wiglaf_link_shm::ShmLink;
use wiglaf_link_udp::{UdpLink, interface};
use wiglaf_link_xdp::{Mode, XdpLink};
use wiglaf_testnet::{INTERFACE, Node, Pair};
use wiglaf_transport::limits::CREDIT_INITIAL;

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Incarnations that no other test, and no other process, uses.
fn fresh_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    (u64::from(std::process::id()) << 32) | NEXT.fetch_add(1, Ordering::Relaxed)
}

fn endpoint(epoch: u64, link: Box<dyn Link>) -> Endpoint {
    endpoint_over(epoch, vec![link])
}

fn endpoint_over(epoch: u64, links: Vec<Box<dyn Link>>) -> Endpoint {
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey([9; 16]),
        links,
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

/// Over shared memory, but with datagrams: a decorator hides the near lane.
fn shm(port: u16) -> Endpoint {
    let epoch = fresh_epoch();
    let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let link = ShmLink::open(at, epoch).expect("shared memory");
    endpoint(epoch, Box::new(Fault::new(link, 1, Rates::default())))
}

fn packet(node: &Node) -> Endpoint {
    endpoint(fresh_epoch(), packet_link(node))
}

fn packet_link(node: &Node) -> Box<dyn Link> {
    let link = node.run(|| {
        let interface = interface::holding(node.ip).expect("readable").expect("the node's address");
        PacketLink::open(interface, SocketAddrV4::new(node.ip, 0))
    });
    Box::new(link.expect("root may open packet sockets"))
}

fn region(bytes: &mut [u8]) -> Region {
    Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
}

/// Posts a send of `bytes`, which must live until it is complete.
fn send(
    from: &mut Endpoint,
    peer: PeerId,
    context: usize,
    bytes: &mut [u8],
) -> Result<(), PostError> {
    let op = SendOp {
        peer,
        class: Class::Tagged,
        tag: 7,
        data: None,
        context,
        complete: CompleteWhen::Delivery,
        report: true,
        inject: false,
    };
    // SAFETY: by the contract of this function.
    unsafe { from.post_send(&op, &[region(bytes)]) }
}

fn from_anybody(context: usize) -> RecvOp {
    RecvOp {
        class: Class::Tagged,
        from: None,
        tag: 7,
        ignore: 0,
        context,
        report: true,
        multi_min_free: None,
    }
}

/// Posts a receive of anything into `bytes`, which must live until it is complete.
fn recv(at: &mut Endpoint, context: usize, bytes: &mut [u8]) -> Result<(), PostError> {
    // SAFETY: by the contract of this function.
    unsafe { at.post_recv(&from_anybody(context), &[region(bytes)]) }
}

/// Progresses these endpoints, and no other, until the first has a completion.
fn completion(of: &mut Endpoint, side: Side, others: &mut [&mut Endpoint]) -> Completion {
    let began = Instant::now();
    loop {
        if let Some(completion) = of.pop_completion(side) {
            return completion;
        }
        of.progress();
        for other in &mut *others {
            other.progress();
        }
        assert!(began.elapsed() < PATIENCE, "no progress: {:?}", of.stats());
    }
}

#[test]
fn a_full_ring_holds_up_only_its_own_peer() {
    let (mut a, mut stopped, mut b) = (shm(1), shm(2), shm(3));
    let (to_stopped, to_b) = (a.insert(stopped.name()), a.insert(b.name()));
    b.insert(a.name());
    let mut payload = vec![5; 30_000];
    let mut posted = 0;
    // More than its ring holds, and then as much as it may have eagerly.
    for _ in 0..40 {
        send(&mut a, to_stopped, 1, &mut payload).expect("not too much");
        posted += 1;
    }
    for _ in 0..1000 {
        a.progress();
    }
    let (mut out, mut back) = (vec![6; 300_000], vec![0; 300_000]);
    for context in 10..20 {
        recv(&mut b, context, &mut back).expect("a link is there");
        send(&mut a, to_b, context, &mut out).expect("not too much");
        let got = completion(&mut b, Side::Recv, &mut [&mut a]);
        assert_eq!((got.context, got.outcome), (context, Outcome::Done));
        let sent = completion(&mut a, Side::Send, &mut [&mut b]);
        assert_eq!((sent.context, sent.outcome), (context, Outcome::Done));
        assert!(std::mem::take(&mut back) == out);
        back.resize(out.len(), 0);
    }
    // It was full indeed, and goes on where it stopped.
    let in_flight = a.peer(to_stopped).expect("inserted").in_flight;
    assert!(in_flight > 0, "the stopped peer has acknowledged something");
    stopped.insert(a.name());
    let mut sink = vec![0; payload.len()];
    for _ in 0..posted {
        recv(&mut stopped, 2, &mut sink).expect("a link is there");
        let got = completion(&mut stopped, Side::Recv, &mut [&mut a]);
        assert_eq!((got.len, got.outcome), (payload.len(), Outcome::Done));
        assert!(sink == payload);
        let sent = completion(&mut a, Side::Send, &mut [&mut stopped]);
        assert_eq!((sent.context, sent.outcome), (1, Outcome::Done));
    }
}

/// Who sleeps with a train that waits for room gets up soon to offer it again.
#[test]
fn nothing_waits_for_room_at_a_peer_that_was_given_up() {
    /// Longer than until the next offer.
    const LONG: Duration = Duration::from_millis(1);
    let (mut a, stopped) = (shm(6), shm(7));
    let to_stopped = a.insert(stopped.name());
    let mut payload = vec![5; 30_000];
    for _ in 0..40 {
        send(&mut a, to_stopped, 1, &mut payload).expect("not too much");
    }
    for _ in 0..1000 {
        a.progress();
    }
    let nap = a.lie_down(PATIENCE).expect("nothing has arrived");
    assert!(nap.limit() < LONG, "its ring is full");
    a.get_up();
    a.give_up(to_stopped);
    let began = Instant::now();
    loop {
        let nap = a.lie_down(PATIENCE).expect("nothing has arrived");
        let limit = nap.limit();
        a.get_up();
        if limit >= LONG {
            break;
        }
        // A timer that was set before may be due first.
        a.progress();
        assert!(began.elapsed() < PATIENCE, "it is still offered");
    }
}

#[test]
fn a_message_that_is_still_arriving_can_be_discarded() {
    const COUNT: usize = 5;
    let (mut a, mut b) = (shm(4), shm(5));
    let to_b = a.insert(b.name());
    b.insert(a.name());
    let mut payload = vec![5; 100_000];
    // Sent at once, as far as a ring holds: one of them in part.
    for context in 0..COUNT {
        send(&mut a, to_b, context, &mut payload).expect("not too much");
    }
    assert_eq!(a.stats().credit_stalls, 0);
    for _ in 0..1000 {
        b.progress();
    }
    let here = b.unexpected_len();
    let mut ended = Vec::new();
    for context in 0..here {
        b.peek(&from_anybody(context), true);
        let found = b.pop_completion(Side::Recv).expect("a peek ends at once");
        assert_eq!((found.context, found.outcome), (context, Outcome::Done));
        b.discard_claimed(&from_anybody(context)).expect("it is claimed");
        ended.extend(b.pop_completion(Side::Recv));
    }
    assert!(ended.len() < here && here < COUNT, "{} of {here} are whole", ended.len());
    while ended.len() < here {
        ended.push(completion(&mut b, Side::Recv, &mut [&mut a]));
    }
    let ended: Vec<_> = ended.iter().map(|c| (c.context, c.len, c.outcome)).collect();
    let expected: Vec<_> = (0..here).map(|context| (context, 0, Outcome::Done)).collect();
    assert_eq!(ended, expected);
    // All credit comes back.
    for context in here..COUNT {
        recv(&mut b, context, &mut payload).expect("a link is there");
        completion(&mut b, Side::Recv, &mut [&mut a]);
    }
    let began = Instant::now();
    while a.peer(to_b).expect("inserted").credit_left < CREDIT_INITIAL - CREDIT_INITIAL / 4 {
        a.progress();
        b.progress();
        assert!(began.elapsed() < PATIENCE, "{:?}", a.peer(to_b));
    }
}

/// Asserts that every packet arrived the first time, and behind those sent before it. A machine
/// that has stalled may have sent one again all the same: that one comes as a duplicate.
fn nothing_was_lost(a: &mut Endpoint, b: &mut Endpoint) {
    let again = |end: &Endpoint| end.stats().ordered_retransmitted + end.stats().bulk_retransmitted;
    let began = Instant::now();
    while (again(a), again(b)) != (b.stats().duplicates, a.stats().duplicates) {
        assert!(began.elapsed() < PATIENCE, "lost: {:?} {:?}", a.stats(), b.stats());
        a.progress();
        b.progress();
    }
    assert_eq!((a.stats().out_of_order, b.stats().out_of_order), (0, 0));
}

fn udp(node: &Node) -> Endpoint {
    let link = node.run(|| UdpLink::open(SocketAddrV4::new(node.ip, 0)));
    endpoint(fresh_epoch(), Box::new(link.expect("an address of the node")))
}

fn xdp(node: &Node) -> Endpoint {
    endpoint(fresh_epoch(), xdp_link(node))
}

fn xdp_link(node: &Node) -> Box<dyn Link> {
    let link = node.run(|| {
        let interface = interface::holding(node.ip).expect("readable").expect("the node's address");
        XdpLink::open(interface, SocketAddrV4::new(node.ip, 0), Mode::Generic)
    });
    Box::new(link.expect("root may open AF_XDP sockets"))
}

/// Each link has its own way for what is longer than a datagram, and meets those of the others.
#[test]
fn any_two_links_carry_messages_of_any_length() {
    for (from, to) in [(packet as fn(&Node) -> _, udp as fn(&Node) -> _), (packet, xdp), (udp, xdp)]
    {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let (mut a, mut b) = (from(&pair.a), to(&pair.b));
        let (to_b, to_a) = (a.insert(b.name()), b.insert(a.name()));
        for len in [100, 3000, 10_000, 31_000, 33_000, 60_000, 200_000] {
            let mut out: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
            let mut into = vec![0; len];
            recv(&mut b, 1, &mut into).expect("a link is there");
            send(&mut a, to_b, 2, &mut out).expect("not too much");
            assert_eq!(completion(&mut b, Side::Recv, &mut [&mut a]).outcome, Outcome::Done);
            assert_eq!(completion(&mut a, Side::Send, &mut [&mut b]).outcome, Outcome::Done);
            let mut back = vec![0; len];
            recv(&mut a, 3, &mut back).expect("a link is there");
            send(&mut b, to_a, 4, &mut into).expect("not too much");
            assert_eq!(completion(&mut a, Side::Recv, &mut [&mut b]).outcome, Outcome::Done);
            assert_eq!(completion(&mut b, Side::Send, &mut [&mut a]).outcome, Outcome::Done);
            assert!(back == out, "{len} bytes");
        }
        nothing_was_lost(&mut a, &mut b);
    }
}

/// A short train and a long one behind it take different ways, and the second is not believed to
/// show that the first is lost.
#[test]
fn messages_that_take_different_ways_do_not_overtake_each_other() {
    for (from, to) in
        [(packet as fn(&Node) -> _, udp as fn(&Node) -> _), (packet, packet), (udp, packet)]
    {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let (mut a, mut b) = (from(&pair.a), to(&pair.b));
        let to_b = a.insert(b.name());
        b.insert(a.name());
        let lens = [8, 20_000, 60_000, 8, 3000, 60_000, 20_000];
        // The first teaches where trains are awaited.
        for lens in [&lens[..1], &lens[1..]] {
            let mut out: Vec<Vec<u8>> = lens.iter().map(|len| vec![1; *len]).collect();
            let mut into: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
            for (context, bytes) in into.iter_mut().enumerate() {
                recv(&mut b, context, bytes).expect("a link is there");
            }
            for (context, bytes) in out.iter_mut().enumerate() {
                send(&mut a, to_b, context, bytes).expect("not too much");
            }
            for context in 0..lens.len() {
                let got = completion(&mut b, Side::Recv, &mut [&mut a]);
                assert_eq!((got.context, got.outcome), (context, Outcome::Done));
                let sent = completion(&mut a, Side::Send, &mut [&mut b]);
                assert_eq!((sent.context, sent.outcome), (context, Outcome::Done));
            }
        }
        nothing_was_lost(&mut a, &mut b);
    }
}

/// A program that computes calls now and then only.
#[test]
fn one_call_sends_all_that_waits() {
    const COUNT: usize = 120;
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (packet(&pair.a), packet(&pair.b));
    let to_b = a.insert(b.name());
    b.insert(a.name());
    let (mut long, mut sink) = (vec![1; 1300], vec![0; 8]);
    // Who knows the way does not look how long it is.
    for context in 0..100 {
        recv(&mut b, context, &mut sink).expect("a link is there");
        send(&mut a, to_b, context, &mut long[..8]).expect("not too much");
        completion(&mut b, Side::Recv, &mut [&mut a]);
        completion(&mut a, Side::Send, &mut [&mut b]);
    }
    let mut post = |a: &mut Endpoint, len: usize| {
        let op = SendOp {
            peer: to_b,
            class: Class::Tagged,
            tag: 7,
            data: None,
            context: 0,
            complete: CompleteWhen::Transmit,
            report: false,
            inject: true,
        };
        // SAFETY: what is injected has been read when the call returns.
        unsafe { a.post_send(&op, &[region(&mut long[..len])]) }.expect("not too much");
    };
    // Each second one ends its train.
    for number in 0..COUNT {
        post(&mut a, if number % 2 == 0 { 1300 } else { 700 });
        b.progress();
    }
    let posted = b.unexpected_len();
    assert!(posted < COUNT, "the window holds them all");
    // Its acknowledgements are on their way.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(5) {
        b.progress();
    }
    a.progress();
    let began = Instant::now();
    while b.unexpected_len() < COUNT && began.elapsed() < Duration::from_millis(100) {
        b.progress();
    }
    assert_eq!(b.unexpected_len(), COUNT, "{posted} had gone before: {:?}", a.stats());
}

#[test]
fn a_link_that_fails_ends_what_waits_for_it() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (packet(&pair.a), packet(&pair.b));
    let to_b = a.insert(b.name());
    let (mut out, mut into) = (vec![1; 100], vec![0; 100]);
    recv(&mut b, 1, &mut into).expect("a link is there");
    send(&mut a, to_b, 2, &mut out).expect("not too much");
    assert_eq!(completion(&mut a, Side::Send, &mut [&mut b]).outcome, Outcome::Done);
    assert!(a.take_failure().is_none());
    recv(&mut a, 3, &mut into).expect("a link is there");

    // The wire is pulled out together with its plug.
    pair.a.ip(&["link", "delete", INTERFACE]).expect("it was there");
    send(&mut a, to_b, 4, &mut out).expect("nobody has noticed yet");
    let lost = completion(&mut a, Side::Send, &mut []);
    assert_eq!((lost.context, lost.outcome), (4, Outcome::PeerGone));
    let lost = completion(&mut a, Side::Recv, &mut []);
    assert_eq!((lost.context, lost.outcome), (3, Outcome::PeerGone));
    let (link, why) = a.take_failure().expect("the failure is reported");
    assert_eq!((link, a.take_failure().is_none()), ("packet", true), "{why}");
    assert_eq!(send(&mut a, to_b, 5, &mut out), Err(PostError::PeerGone));
    assert_eq!(recv(&mut a, 6, &mut into), Err(PostError::PeerGone));
}

/// The kernel refuses frames that are too long, or cuts those of its own sockets.
#[test]
fn messages_arrive_when_the_senders_mtu_is_lowered_under_way() {
    messages_arrive_when_an_mtu_is_lowered(|pair| &pair.a);
}

/// The other end of a veth refuses them: its kernel says that there is no room.
#[test]
fn messages_arrive_when_the_receivers_mtu_is_lowered_under_way() {
    messages_arrive_when_an_mtu_is_lowered(|pair| &pair.b);
}

fn messages_arrive_when_an_mtu_is_lowered(whose: impl Fn(&Pair) -> &Node) {
    for open in [packet as fn(&Node) -> _, udp, xdp] {
        let Some(pair) = Pair::or_skip(9000) else { return };
        let (mut a, mut b) = (open(&pair.a), open(&pair.b));
        let to_b = a.insert(b.name());
        let mut out: Vec<u8> = (0..200_000).map(|i| (i * 31 + i / 251) as u8).collect();
        let mut exchange = |a: &mut Endpoint, b: &mut Endpoint, len: usize| {
            let mut into = vec![0; len];
            recv(b, 1, &mut into).expect("a link is there");
            send(a, to_b, 2, &mut out[..len]).expect("not too much");
            assert_eq!(completion(b, Side::Recv, &mut [a]).outcome, Outcome::Done);
            assert_eq!(completion(a, Side::Send, &mut [b]).outcome, Outcome::Done);
            assert!(into == out[..len], "{len} bytes");
        };
        // Until it is known that the other end takes long ones.
        let began = Instant::now();
        loop {
            let before = a.stats().datagrams_sent;
            exchange(&mut a, &mut b, 3000);
            if a.stats().datagrams_sent - before == 1 {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "frames stay short");
        }
        whose(&pair).ip(&["link", "set", INTERFACE, "mtu", "1500"]).expect("it is there");
        for len in [3000, 100, 60_000, 200_000, 8_000] {
            exchange(&mut a, &mut b, len);
        }
        assert!(a.take_failure().is_none());
        assert!(a.stats().paths_narrowed <= 1, "{:?}", a.stats());
    }
}

/// Nothing that it sends tells it.
#[test]
fn a_link_that_fails_ends_what_is_only_received() {
    for open in [packet_link as fn(&Node) -> Box<dyn Link>, xdp_link] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let mut a = endpoint(fresh_epoch(), open(&pair.a));
        let mut into = vec![0; 100];
        recv(&mut a, 3, &mut into).expect("a link is there");
        pair.a.ip(&["link", "delete", INTERFACE]).expect("it was there");
        let lost = completion(&mut a, Side::Recv, &mut []);
        assert_eq!((lost.context, lost.outcome), (3, Outcome::PeerGone));
        assert!(a.take_failure().is_some(), "the failure is reported");
    }
}

/// The error that the kernel leaves with the socket is no arrival.
#[test]
fn an_interface_that_is_down_keeps_nobody_awake() {
    for open in [packet_link as fn(&Node) -> Box<dyn Link>, xdp_link] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let mut a = endpoint(fresh_epoch(), open(&pair.a));
        for state in ["down", "up"] {
            pair.a.ip(&["link", "set", INTERFACE, state]).expect("it is there");
            let nap = a.lie_down(PATIENCE).expect("nothing has arrived");
            assert!(!is_rung(&nap), "{state}");
            a.get_up();
        }
        assert!(a.take_failure().is_none());
    }
}

/// A socket whose interface is gone is readable for ever.
#[test]
fn a_link_that_has_failed_keeps_nobody_awake() {
    for open in [packet_link as fn(&Node) -> Box<dyn Link>, xdp_link] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let (epoch, failing) = (fresh_epoch(), open(&pair.a));
        let shm = ShmLink::open(failing.local(), epoch).expect("shared memory");
        let mut a = endpoint_over(epoch, vec![failing, Box::new(shm)]);
        let at = SocketAddrV4::new(pair.b.ip, 9);
        let to = a.insert(Address { at, epoch: Epoch::UNKNOWN });
        // Asleep when it fails.
        let nap = a.lie_down(PATIENCE).expect("nothing has arrived");
        assert!(!is_rung(&nap));
        pair.a.ip(&["link", "delete", INTERFACE]).expect("it was there");
        let mut bytes = vec![1; 8];
        send(&mut a, to, 1, &mut bytes).expect("nobody has noticed yet");
        assert_eq!(completion(&mut a, Side::Send, &mut []).outcome, Outcome::PeerGone);
        let (failure, _) = a.take_failure().expect("the failure is reported");
        assert!(is_rung(&nap), "what it sleeps on has changed");
        // Another one, while the first has not got up yet.
        let second = a.lie_down(PATIENCE).expect("nothing has arrived");
        assert!(!is_rung(&second), "{failure} goes on ringing");
        a.alarm();
        assert!(is_rung(&second));
        a.get_up();
        a.get_up();
        let third = a.lie_down(PATIENCE).expect("nothing has arrived");
        assert!(!is_rung(&third), "{failure} goes on ringing");
        a.get_up();
    }
}

/// Whoever handles one descriptor after the other has others armed meanwhile.
#[test]
fn an_alarm_of_others_keeps_nobody_awake() {
    let link = UdpLink::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut a = endpoint(fresh_epoch(), Box::new(link));
    let first = a.lie_down(PATIENCE).expect("nothing has arrived");
    a.alarm();
    assert!(is_rung(&first));
    let second = a.lie_down(PATIENCE).expect("nothing has arrived");
    assert!(is_rung(&first) && !is_rung(&second));
    a.alarm();
    assert!(is_rung(&second));
    a.get_up();
    a.get_up();
    assert!(!is_rung(&a.lie_down(PATIENCE).expect("nothing has arrived")));
    a.get_up();
}

fn is_rung(nap: &Nap) -> bool {
    let fds = nap.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let mut fds: Vec<PollFd<'_>> = fds.collect();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).expect("descriptors of ours") > 0
}
