//! Endpoints of one node, which talk over the near lane: in one process, and
//! between processes that are killed or whose memory may not be read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Endpoint, Epoch, JobKey, Outcome, PeerId, PostError, RecvOp,
    Region, SendOp, Setup, Side,
};
use wiglaf_link::Link;
use wiglaf_link_shm::ShmLink;
use wiglaf_link_udp::UdpLink;
use wiglaf_transport::limits::CREDIT_INITIAL;

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// Around every border of the lane: a cell, a line, eager, one part, several.
const LENS: [usize; 14] =
    [0, 1, 8, 31, 32, 33, 64, 1000, 4096, 4097, 32_768, 32_769, 300_000, 3_000_000];

/// Incarnations that no other test, and no other process, uses.
fn fresh_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    (u64::from(std::process::id()) << 32) | NEXT.fetch_add(1, Ordering::Relaxed)
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port)
}

fn open_at(at: SocketAddrV4, epoch: u64, memory_access: bool) -> Endpoint {
    let mut link = ShmLink::open(at, epoch).expect("shared memory");
    if !memory_access {
        link.near().expect("a lane").forbid_memory_access();
    }
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey([9; 16]),
        links: vec![Box::new(link)],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

struct Pair {
    a: Endpoint,
    b: Endpoint,
    a_to_b: PeerId,
    b_to_a: PeerId,
}

fn pair(memory_access: bool) -> Pair {
    let mut a = open_at(at(1), fresh_epoch(), memory_access);
    let mut b = open_at(at(2), fresh_epoch(), memory_access);
    let (a_to_b, b_to_a) = (a.insert(b.name()), b.insert(a.name()));
    Pair { a, b, a_to_b, b_to_a }
}

fn region(bytes: &mut [u8]) -> Region {
    Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
}

fn send_op(peer: PeerId, tag: u64) -> SendOp {
    SendOp {
        peer,
        class: Class::Tagged,
        tag,
        data: Some(tag + 1),
        context: 2,
        complete: CompleteWhen::Transmit,
        report: true,
        inject: false,
    }
}

fn recv_op(from: Option<PeerId>, tag: u64) -> RecvOp {
    RecvOp {
        class: Class::Tagged,
        from,
        tag,
        ignore: 0,
        context: 1,
        report: true,
        multi_min_free: None,
    }
}

/// Posts a send of `bytes`, which must live until it is complete.
fn send(from: &mut Endpoint, op: &SendOp, bytes: &mut [u8]) -> Result<(), PostError> {
    // SAFETY: by the contract of this function.
    unsafe { from.post_send(op, &[region(bytes)]) }
}

/// Posts a receive into `bytes`, which must live until it is complete.
fn recv(at: &mut Endpoint, op: &RecvOp, bytes: &mut [u8]) {
    // SAFETY: by the contract of this function.
    unsafe { at.post_recv(op, &[region(bytes)]) }.expect("a link is there");
}

/// Progresses both until `done` says something.
fn until<T>(
    a: &mut Endpoint,
    b: Option<&mut Endpoint>,
    mut done: impl FnMut(&mut Endpoint) -> Option<T>,
) -> T {
    let (began, mut b) = (Instant::now(), b);
    loop {
        if let Some(value) = done(a) {
            return value;
        }
        a.progress();
        if let Some(b) = &mut b {
            b.progress();
        }
        assert!(began.elapsed() < PATIENCE, "no progress: {:?}", a.near_stats());
    }
}

fn completion(of: &mut Endpoint, side: Side, other: Option<&mut Endpoint>) -> Completion {
    until(of, other, |of| of.pop_completion(side))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn every_length_arrives_expected_and_unexpected() {
    for memory_access in [true, false] {
        let mut p = pair(memory_access);
        for (len, expected) in LENS.iter().flat_map(|len| [(*len, true), (*len, false)]) {
            let (mut from, mut to) = (pattern(len), vec![0; len]);
            let op = recv_op(Some(p.b_to_a), 7);
            if expected {
                recv(&mut p.b, &op, &mut to);
            }
            send(&mut p.a, &send_op(p.a_to_b, 7), &mut from).expect("room");
            if !expected {
                until(&mut p.b, Some(&mut p.a), |b| (b.unexpected_len() == 1).then_some(()));
                recv(&mut p.b, &op, &mut to);
            }
            let got = completion(&mut p.b, Side::Recv, Some(&mut p.a));
            assert_eq!((got.outcome, got.len, got.data), (Outcome::Done, len, Some(8)));
            assert_eq!((got.source, got.tag, got.context), (Some(p.b_to_a), 7, 1));
            let sent = completion(&mut p.a, Side::Send, Some(&mut p.b));
            assert_eq!((sent.outcome, sent.len, sent.context), (Outcome::Done, len, 2));
            assert!(from == to, "{len} bytes differ (expected: {expected})");
        }
        let stats = p.b.near_stats();
        let long = 2 * LENS.iter().filter(|len| **len > 4096).count() as u64;
        let ways = if memory_access { (long, 0) } else { (0, long) };
        assert_eq!((stats.copied_once, stats.copied_twice, stats.refused), (ways.0, ways.1, 0));
        assert_eq!(p.a.stats().datagrams_sent + p.b.stats().datagrams_sent, 0);
    }
}

#[test]
fn a_buffer_too_short_takes_what_fits() {
    for (memory_access, len) in [true, false].into_iter().flat_map(|m| [(m, 100), (m, 200_000)]) {
        let mut p = pair(memory_access);
        let (mut from, mut to) = (pattern(len), vec![0; 60]);
        recv(&mut p.b, &recv_op(None, 1), &mut to);
        send(&mut p.a, &send_op(p.a_to_b, 1), &mut from).expect("room");
        let got = completion(&mut p.b, Side::Recv, Some(&mut p.a));
        assert_eq!((got.outcome, got.len), (Outcome::Truncated(len - 60), 60));
        assert_eq!(to, from[..60]);
        assert_eq!(completion(&mut p.a, Side::Send, Some(&mut p.b)).outcome, Outcome::Done);
    }
}

#[test]
fn gathered_and_scattered() {
    for memory_access in [true, false] {
        let mut p = pair(memory_access);
        for len in [24, 3000, 90_000] {
            let (mut from, mut to) = (pattern(len), vec![0; len]);
            let (a, b) = from.split_at_mut(len / 3);
            let (c, rest) = to.split_at_mut(len / 7);
            let (d, e) = rest.split_at_mut(len / 2);
            // SAFETY: the buffers outlive the operations, which complete below.
            unsafe {
                let to = [region(c), region(d), region(e)];
                p.b.post_recv(&recv_op(None, 1), &to).expect("a link is there");
                p.a.post_send(&send_op(p.a_to_b, 1), &[region(a), region(b)]).expect("room");
            }
            assert_eq!(completion(&mut p.b, Side::Recv, Some(&mut p.a)).len, len);
            completion(&mut p.a, Side::Send, Some(&mut p.b));
            assert!(from == to);
        }
    }
}

#[test]
fn a_peer_inserted_again_without_its_epoch_is_the_same() {
    let mut p = pair(true);
    let unknown = wiglaf_endpoint::Address { epoch: Epoch::UNKNOWN, ..p.b.name() };
    assert_eq!(p.a.insert(unknown), p.a_to_b);
    send(&mut p.a, &send_op(p.a_to_b, 1), &mut [5; 8]).expect("room");
    until(&mut p.b, Some(&mut p.a), |b| (b.unexpected_len() == 1).then_some(()));
}

#[test]
fn short_and_long_messages_stay_in_order() {
    let mut p = pair(true);
    let mut sent: Vec<Vec<u8>> = (0..60).map(|i| vec![i as u8; LENS[i * 5 % 12]]).collect();
    for bytes in &mut sent {
        let op = send_op(p.a_to_b, 3);
        while send(&mut p.a, &op, bytes).is_err() {
            p.a.progress();
            p.b.progress();
        }
    }
    for bytes in &sent {
        let mut to = vec![0xff; 400_000];
        recv(&mut p.b, &recv_op(None, 3), &mut to);
        let got = completion(&mut p.b, Side::Recv, Some(&mut p.a));
        assert!(got.len == bytes.len() && to[..got.len] == bytes[..]);
    }
}

#[test]
fn unexpected_messages_are_bounded_by_credit() {
    let mut p = pair(true);
    let mut bytes = pattern(4000);
    // Half a MiB of credit; the rest must wait with its sender.
    for _ in 0..300 {
        let op = send_op(p.a_to_b, 3);
        while send(&mut p.a, &op, &mut bytes).is_err() {
            p.a.progress();
            p.b.progress();
        }
    }
    until(&mut p.b, Some(&mut p.a), |b| (b.unexpected_len() == 300).then_some(()));
    let stats = *p.a.near_stats();
    assert!(stats.eager_sent <= 524_288 / 4064, "{stats:?}");
    assert_eq!((stats.eager_sent + stats.announced, stats.announced), (300, stats.credit_stalls));
    let mut to = vec![0; 4000];
    for _ in 0..300 {
        recv(&mut p.b, &recv_op(None, 3), &mut to);
        assert_eq!(completion(&mut p.b, Side::Recv, Some(&mut p.a)).len, 4000);
        assert!(std::mem::replace(&mut to, vec![0; 4000]) == bytes);
    }
    // What was consumed may be sent again.
    send(&mut p.a, &send_op(p.a_to_b, 3), &mut bytes).expect("room");
    assert_eq!(p.a.near_stats().eager_sent, stats.eager_sent + 1);
}

/// A long one is announced, which costs no credit: nor does it bring any.
#[test]
fn a_long_active_message_gives_no_credit_back() {
    for memory_access in [true, false] {
        let mut p = pair(memory_access);
        let mut bytes = pattern(1 << 20);
        let op = SendOp { class: Class::Active, ..send_op(p.a_to_b, 1) };
        send(&mut p.a, &op, &mut bytes).expect("room");
        let message = until(&mut p.b, Some(&mut p.a), Endpoint::pop_active);
        assert!(message.payload == bytes);
        completion(&mut p.a, Side::Send, Some(&mut p.b));
        // More than was allowed to begin with has to wait.
        for _ in 0..300 {
            let op = send_op(p.a_to_b, 3);
            while send(&mut p.a, &op, &mut bytes[..4000]).is_err() {
                p.a.progress();
                p.b.progress();
            }
        }
        let stats = *p.a.near_stats();
        assert!(stats.eager_sent <= CREDIT_INITIAL / 4064, "{stats:?}");
    }
}

/// Credit bounds what comes unasked; the rest is not fetched before there is room.
#[test]
fn active_messages_that_nobody_takes_stay_with_their_sender() {
    const COUNT: u64 = 1000;
    const LEN: usize = 4096;
    for memory_access in [true, false] {
        let mut p = pair(memory_access);
        let mut bytes = pattern(LEN);
        for n in 0..COUNT {
            let op = SendOp { class: Class::Active, data: Some(n), ..send_op(p.a_to_b, 1) };
            while send(&mut p.a, &op, &mut bytes).is_err() {
                p.a.progress();
                p.b.progress();
            }
        }
        until(&mut p.b, Some(&mut p.a), |b| (b.active_len() as u64 == COUNT).then_some(()));
        assert!(p.b.active_held() <= CREDIT_INITIAL + LEN as u64, "{}", p.b.active_held());
        for n in 0..COUNT {
            let message = until(&mut p.b, Some(&mut p.a), Endpoint::pop_active);
            assert_eq!(message.data, Some(n));
            assert!(message.payload == bytes);
        }
        assert_eq!((p.b.active_len(), p.b.active_held()), (0, 0));
        for _ in 0..COUNT {
            completion(&mut p.a, Side::Send, Some(&mut p.b));
        }
    }
}

#[test]
fn delivery_is_reported_when_the_peer_has_it() {
    let mut p = pair(true);
    for inject in [false, true] {
        let op = SendOp { complete: CompleteWhen::Delivery, inject, ..send_op(p.a_to_b, 1) };
        send(&mut p.a, &op, &mut [5; 8]).expect("room");
        for _ in 0..1000 {
            p.a.progress();
        }
        assert!(p.a.pop_completion(Side::Send).is_none(), "the peer has not looked yet");
        let sent = completion(&mut p.a, Side::Send, Some(&mut p.b));
        assert_eq!((sent.outcome, sent.len), (Outcome::Done, 8));
    }
}

#[test]
fn a_match_is_reported_when_a_receive_has_taken_the_message() {
    let mut p = pair(true);
    for (inject, len) in [(false, 8), (true, 8), (false, 0), (false, 100_000)] {
        let op = SendOp { complete: CompleteWhen::Match, inject, ..send_op(p.a_to_b, 1) };
        let mut bytes = vec![5; len];
        send(&mut p.a, &op, &mut bytes).expect("room");
        for _ in 0..1000 {
            p.a.progress();
            p.b.progress();
        }
        assert!(p.a.pop_completion(Side::Send).is_none(), "{len} bytes that nobody has received");
        let mut to = vec![0; len];
        recv(&mut p.b, &recv_op(Some(p.b_to_a), 1), &mut to);
        let sent = completion(&mut p.a, Side::Send, Some(&mut p.b));
        assert_eq!((sent.outcome, sent.len), (Outcome::Done, len));
        assert_eq!(completion(&mut p.b, Side::Recv, Some(&mut p.a)).outcome, Outcome::Done);
        assert_eq!(to, bytes);
    }
}

/// How long `of` may sleep now that it has taken all that there is.
fn sleep_limit(of: &mut Endpoint) -> Duration {
    while of.progress() {}
    let nap = of.lie_down(Duration::from_secs(1)).expect("nothing has arrived");
    of.get_up();
    nap.limit()
}

/// Nobody rings when a record is taken.
#[test]
fn who_waits_for_a_peer_to_take_something_does_not_sleep_for_long() {
    let short = Duration::from_nanos(1)..Duration::from_millis(1);
    let mut p = pair(false);
    let long = sleep_limit(&mut p.a);
    assert!(long >= Duration::from_millis(50), "{long:?}");
    // For delivery.
    let op = SendOp { complete: CompleteWhen::Delivery, ..send_op(p.a_to_b, 1) };
    send(&mut p.a, &op, &mut [5; 8]).expect("room");
    let limit = sleep_limit(&mut p.a);
    assert!(short.contains(&limit), "{limit:?}");
    completion(&mut p.a, Side::Send, Some(&mut p.b));
    assert_eq!(sleep_limit(&mut p.a), long);
    // For room for what it has to answer.
    let mut bytes = pattern(100_000);
    while send(&mut p.a, &send_op(p.a_to_b, 1), &mut bytes[..8]).is_ok() {}
    let mut into = vec![0; bytes.len()];
    recv(&mut p.a, &recv_op(None, 2), &mut into);
    send(&mut p.b, &send_op(p.b_to_a, 2), &mut bytes).expect("room");
    let limit = sleep_limit(&mut p.a);
    assert!(short.contains(&limit), "{limit:?}");
    assert_eq!(completion(&mut p.a, Side::Recv, Some(&mut p.b)).outcome, Outcome::Done);
    assert_eq!(sleep_limit(&mut p.a), long);
}

/// A thread that sleeps is told when another leaves something to do.
#[test]
fn a_sleeper_learns_that_a_peer_is_to_take_something() {
    let mut p = pair(true);
    while p.a.progress() {}
    let nap = p.a.lie_down(Duration::from_secs(1)).expect("nothing has arrived");
    let op = SendOp { complete: CompleteWhen::Delivery, ..send_op(p.a_to_b, 1) };
    send(&mut p.a, &op, &mut [5; 8]).expect("room");
    let mut fds: Vec<PollFd<'_>> =
        nap.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&now)), Ok(1));
    p.a.get_up();
}

#[test]
fn a_good_bye_comes_after_the_last_message() {
    let mut p = pair(true);
    let mut last = vec![0; 8];
    send(&mut p.a, &send_op(p.a_to_b, 1), &mut [5; 8]).expect("room");
    recv(&mut p.b, &recv_op(Some(p.b_to_a), 1), &mut last);
    recv(&mut p.b, &recv_op(Some(p.b_to_a), 2), &mut [0; 8]);
    p.a.close();
    assert_eq!(completion(&mut p.b, Side::Recv, None).outcome, Outcome::Done);
    assert_eq!(last, [5; 8]);
    assert_eq!(completion(&mut p.b, Side::Recv, None).outcome, Outcome::PeerGone);
    let refused = send(&mut p.b, &send_op(p.b_to_a, 1), &mut [0; 8]);
    assert_eq!(refused, Err(PostError::PeerGone));
}

#[test]
fn endpoints_of_two_nodes_share_nothing() {
    let other = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 1);
    let mut a = open_at(at(1), fresh_epoch(), true);
    let b = open_at(other, fresh_epoch(), true);
    let to_b = a.insert(b.name());
    assert_eq!(send(&mut a, &send_op(to_b, 1), &mut [0; 8]), Err(PostError::PeerGone));
}

/// Endpoints that a segment has slots for.
const SLOTS: u16 = 64;

/// An endpoint that is reached over loopback, too, where shared memory cannot be had.
fn open_with_udp() -> Endpoint {
    let epoch = fresh_epoch();
    let udp = UdpLink::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let shm = ShmLink::open(udp.local(), epoch).expect("shared memory");
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey([9; 16]),
        links: vec![Box::new(udp), Box::new(shm)],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

#[test]
fn who_could_not_be_answered_is_not_written_to() {
    let mut a = open_at(at(1), fresh_epoch(), true);
    let mut others: Vec<Endpoint> =
        (0..=SLOTS).map(|n| open_at(at(2 + n), fresh_epoch(), true)).collect();
    for other in &mut others {
        other.insert(a.name());
    }
    // It has a slot for us, and none of ours is left for it.
    let last = others.pop().expect("one too many");
    let to_last = a.insert(last.name());
    let mut long = vec![1; 200_000];
    assert_eq!(send(&mut a, &send_op(to_last, 1), &mut long), Err(PostError::PeerGone));
    let to_first = a.insert(others[0].name());
    assert_eq!(send(&mut a, &send_op(to_first, 1), &mut [0; 8]), Ok(()));
}

#[test]
fn who_finds_no_slot_is_reached_otherwise() {
    let mut a = open_with_udp();
    let mut others: Vec<Endpoint> = (0..=SLOTS).map(|_| open_with_udp()).collect();
    for other in &mut others {
        other.insert(a.name());
    }
    let mut b = others.pop().expect("one too many");
    let (to_b, to_a) = (a.insert(b.name()), b.insert(a.name()));
    let mut from = pattern(200_000);
    let mut into = vec![0; from.len()];
    recv(&mut b, &recv_op(Some(to_a), 1), &mut into);
    send(&mut a, &send_op(to_b, 1), &mut from).expect("another link is there");
    assert_eq!(completion(&mut b, Side::Recv, Some(&mut a)).outcome, Outcome::Done);
    assert_eq!(completion(&mut a, Side::Send, Some(&mut b)).outcome, Outcome::Done);
    assert_eq!(into, from);
    into.fill(0);
    recv(&mut a, &recv_op(Some(to_b), 2), &mut into);
    send(&mut b, &send_op(to_a, 2), &mut from).expect("another link is there");
    assert_eq!(completion(&mut a, Side::Recv, Some(&mut b)).outcome, Outcome::Done);
    assert_eq!(completion(&mut b, Side::Send, Some(&mut a)).outcome, Outcome::Done);
    assert_eq!(into, from);
    assert_eq!((a.near_stats().announced, b.near_stats().announced), (0, 0));
}

/// A process that runs [`child_process`].
fn spawn(task: &str, peer: &Endpoint, epoch: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["--exact", "child_process", "--nocapture"])
        .env("WIGLAF_NEAR_TEST", format!("{task} {epoch} {}", peer.name().epoch.0))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("ready"))));
    child
}

const CHILD_LEN: usize = 1_000_000;

/// Sends to its parent, once in a form that the task names, then for ever.
#[test]
fn child_process() {
    let Ok(task) = std::env::var("WIGLAF_NEAR_TEST") else { return };
    let words: Vec<&str> = task.split(' ').collect();
    let number = |i: usize| words[i].parse().expect("an epoch");
    let mut own = open_at(at(2), number(1), true);
    if words[0] == "secretive" {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).expect("always allowed");
    }
    println!("\nready");
    std::io::stdout().flush().expect("piped");
    // The parent has met us before we meet it.
    std::io::stdin().read_exact(&mut [0]).expect("piped");
    let parent = wiglaf_endpoint::Address { at: at(1), epoch: Epoch(number(2)) };
    let to = own.insert(parent);
    let mut bytes = pattern(CHILD_LEN);
    loop {
        send(&mut own, &send_op(to, 1), &mut bytes).expect("room");
        completion(&mut own, Side::Send, None);
    }
}

fn meet_child(task: &str) -> (Endpoint, Child, PeerId) {
    let (mut own, epoch) = (open_at(at(1), fresh_epoch(), true), fresh_epoch());
    let mut child = spawn(task, &own, epoch);
    let peer = own.insert(wiglaf_endpoint::Address { at: at(2), epoch: Epoch(epoch) });
    child.stdin.as_mut().expect("piped").write_all(&[1]).expect("it reads");
    (own, child, peer)
}

fn receive_from_child(own: &mut Endpoint) {
    let mut to = vec![0; CHILD_LEN];
    recv(own, &recv_op(None, 1), &mut to);
    assert_eq!(completion(own, Side::Recv, None).outcome, Outcome::Done);
    assert!(to == pattern(CHILD_LEN));
}

/// Root may read any process; this thread may not any more.
fn give_up_capabilities() {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).expect("capabilities can be given up");
}

#[test]
fn memory_that_may_not_be_read_is_sent_instead() {
    for (task, may_read) in [("open", true), ("secretive", false)] {
        let (mut own, mut child, _) = std::thread::spawn(move || {
            give_up_capabilities();
            let (mut own, child, peer) = meet_child(task);
            for _ in 0..3 {
                receive_from_child(&mut own);
            }
            (own, child, peer)
        })
        .join()
        .expect("no panic");
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let stats = *own.near_stats();
        if may_read && stats.copied_once == 0 {
            println!("skipped: this kernel lets no process read another's memory");
            continue;
        }
        assert_eq!((stats.copied_once, stats.copied_twice), if may_read { (3, 0) } else { (0, 3) });
        own.close();
    }
}

#[test]
fn whoever_is_killed_is_found_and_leaves_nothing() {
    for task in ["open", "secretive"] {
        for rounds in 0..4 {
            let (mut own, mut child, peer) = meet_child(task);
            let childs = own.address_of(peer).expect("inserted").epoch;
            for _ in 0..rounds {
                receive_from_child(&mut own);
            }
            // Somewhere in the middle of the next message.
            let mut to = vec![0; CHILD_LEN];
            recv(&mut own, &recv_op(Some(peer), 1), &mut to);
            let mut never = vec![0; 8];
            recv(&mut own, &recv_op(Some(peer), 99), &mut never);
            for _ in 0..rounds * 50 {
                own.progress();
            }
            child.kill().expect("our own child");
            child.wait().expect("our own child");
            // The message that was under way may have come, or not.
            let mut outcomes = Vec::new();
            while outcomes.len() < 2 {
                outcomes.push(completion(&mut own, Side::Recv, None).outcome);
            }
            assert!(outcomes.contains(&Outcome::PeerGone), "{outcomes:?}");
            assert_eq!(send(&mut own, &send_op(peer, 1), &mut [0; 8]), Err(PostError::PeerGone));
            own.close();
            // The next endpoint of this user sweeps away what the dead left.
            drop(open_at(at(9), fresh_epoch(), true));
            let files = std::fs::read_dir("/dev/shm").expect("readable").flatten();
            let mut names = files.filter_map(|file| file.file_name().into_string().ok());
            assert!(!names.any(|name| name.ends_with(&format!("{:016x}", childs.0))));
        }
    }
}

#[test]
fn who_takes_the_place_of_the_dead_does_not_hide_the_death() {
    let (mut own, epoch) = (open_at(at(1), fresh_epoch(), true), fresh_epoch());
    let mut child = spawn("open", &own, epoch);
    let peer = own.insert(wiglaf_endpoint::Address { at: at(2), epoch: Epoch(epoch) });
    let mut bytes = pattern(CHILD_LEN);
    // The child waits to be told that it was met, and takes nothing until then.
    send(&mut own, &send_op(peer, 1), &mut bytes).expect("a link is there");
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let mut next = open_at(at(2), fresh_epoch(), true);
    let to_next = own.insert(next.name());
    let ended = completion(&mut own, Side::Send, Some(&mut next));
    assert_eq!(ended.outcome, Outcome::PeerGone);
    // And the one that lives is there.
    let mut to = vec![0; CHILD_LEN];
    recv(&mut next, &recv_op(None, 1), &mut to);
    send(&mut own, &send_op(to_next, 1), &mut bytes).expect("it lives");
    assert_eq!(completion(&mut own, Side::Send, Some(&mut next)).outcome, Outcome::Done);
    assert!(to == bytes);
    own.close();
}
