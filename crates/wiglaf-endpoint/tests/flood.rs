//! Floods of messages that come before their receives, past their sender's credit, over UDP on loopback.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Endpoint, Epoch, JobKey, Outcome, PostError, RecvOp, Region,
    SendOp, Setup, Side,
};
use wiglaf_link_udp::UdpLink;

fn open(epoch: u64) -> Endpoint {
    let link = UdpLink::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey([9; 16]),
        links: vec![Box::new(link)],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

fn region(bytes: &mut [u8]) -> Region {
    Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
}

fn received(a: &mut Endpoint, b: &mut Endpoint) -> Completion {
    loop {
        if let Some(done) = b.pop_completion(Side::Recv) {
            return done;
        }
        a.progress();
        b.progress();
    }
}

/// Sends `count` messages of `len` bytes and receives them later, in that order. Says how many
/// datagrams the receiver sent meanwhile.
fn flood(len: usize, order: impl Iterator<Item = u64>, count: u64) -> u64 {
    let (mut a, mut b) = (open(1), open(2));
    let (peer, _) = (a.insert(b.name()), b.insert(a.name()));
    let mut from: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; len]).collect();
    for (tag, bytes) in (0..).zip(&mut from) {
        let op = SendOp {
            peer,
            class: Class::Tagged,
            tag,
            data: None,
            context: 0,
            complete: CompleteWhen::Transmit,
            report: false,
            inject: false,
        };
        // SAFETY: the bytes live until the end.
        while unsafe { a.post_send(&op, &[region(bytes)]) } == Err(PostError::Again) {
            a.progress();
            b.progress();
        }
    }
    while (b.unexpected_len() as u64) < count {
        a.progress();
        b.progress();
    }
    let before = b.stats().datagrams_sent;
    let mut to = vec![0; len];
    for tag in order {
        let op = RecvOp {
            class: Class::Tagged,
            from: None,
            tag,
            ignore: 0,
            context: tag as usize,
            report: true,
            multi_min_free: None,
        };
        // SAFETY: the room lives until the receive has completed.
        unsafe { b.post_recv(&op, &[region(&mut to)]) }.unwrap();
        let done = received(&mut a, &mut b);
        assert_eq!((done.outcome, done.len, done.context), (Outcome::Done, len, tag as usize));
        assert!(to.iter().all(|byte| *byte == tag as u8), "message {tag}");
    }
    b.stats().datagrams_sent - before
}

#[test]
fn announced_messages_are_pulled_many_at_once_before_their_receives() {
    const COUNT: u64 = 4000;
    let sent = flood(1024, 0..COUNT, COUNT);
    assert!(sent < COUNT / 4, "the receiver sent {sent} datagrams for {COUNT} messages");
}

#[test]
fn announced_messages_arrive_whole_in_any_order_of_their_receives() {
    flood(1024, (0..2000).rev(), 2000);
    flood(3000, (0..1000).map(|i| i * 377 % 1000), 1000);
    flood(0, (0..2000).map(|i| i * 7 % 2000).rev(), 2000);
    flood(16 << 10, (0..300).map(|i| i * 7 % 300), 300);
}

#[test]
fn a_held_send_is_complete_when_a_receive_has_taken_it() {
    for len in [0, 8, 5000, 20_000, 300_000] {
        let (mut a, mut b) = (open(1), open(2));
        let (peer, _) = (a.insert(b.name()), b.insert(a.name()));
        let mut bytes = vec![7; len];
        let op = SendOp {
            peer,
            class: Class::Tagged,
            tag: 1,
            data: None,
            context: 5,
            complete: CompleteWhen::Match,
            report: true,
            inject: false,
        };
        // SAFETY: the bytes live until the send has completed.
        unsafe { a.post_send(&op, &[region(&mut bytes)]) }.unwrap();
        while b.unexpected_len() == 0 {
            a.progress();
            b.progress();
        }
        // Nothing but a receive ends it, however often both sides look.
        for _ in 0..1000 {
            a.progress();
            b.progress();
        }
        assert!(a.pop_completion(Side::Send).is_none(), "{len} bytes that nobody has received");
        let mut to = vec![0; len];
        let receive = RecvOp {
            class: Class::Tagged,
            from: None,
            tag: 1,
            ignore: 0,
            context: 1,
            report: true,
            multi_min_free: None,
        };
        // SAFETY: the room lives until the receive has completed.
        unsafe { b.post_recv(&receive, &[region(&mut to)]) }.unwrap();
        assert_eq!(received(&mut a, &mut b).outcome, Outcome::Done);
        assert_eq!(to, bytes);
        let sent = loop {
            if let Some(done) = a.pop_completion(Side::Send) {
                break done;
            }
            a.progress();
            b.progress();
        };
        assert_eq!((sent.outcome, sent.len, sent.context), (Outcome::Done, len, 5));
    }
}
