//! Two endpoints over real UDP sockets on loopback.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Endpoint, Epoch, JobKey, Outcome, PeerId, PostError, RecvOp,
    Region, SendOp, Setup, Side,
};
use wiglaf_link_udp::UdpLink;
use wiglaf_transport::Gone;
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE, UNCREDITED_LEN_MAX};
use wiglaf_wire::{Envelope, HEADER_LEN, Header, Kind, Record, seal};

const KEY: JobKey = JobKey([9; 16]);

struct Pair {
    a: Endpoint,
    b: Endpoint,
    a_to_b: PeerId,
    b_to_a: PeerId,
}

fn open(epoch: u64) -> Endpoint {
    open_for(epoch, Duration::from_secs(60))
}

fn open_for(epoch: u64, silence_limit: Duration) -> Endpoint {
    let link = UdpLink::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: KEY,
        links: vec![Box::new(link)],
        silence_limit,
        flow_control: true,
        encrypt: false,
    })
}

fn pair() -> Pair {
    let (mut a, mut b) = (open(1), open(2));
    let (a_to_b, b_to_a) = (a.insert(b.name()), b.insert(a.name()));
    Pair { a, b, a_to_b, b_to_a }
}

fn region(bytes: &mut [u8]) -> Region {
    Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
}

fn send_op(peer: PeerId, tag: u64, context: usize) -> SendOp {
    SendOp {
        peer,
        class: Class::Tagged,
        tag,
        data: Some(tag + 1),
        context,
        complete: CompleteWhen::Transmit,
        report: true,
        inject: false,
    }
}

fn recv_op(tag: u64, context: usize) -> RecvOp {
    RecvOp {
        class: Class::Tagged,
        from: None,
        tag,
        ignore: 0,
        context,
        report: true,
        multi_min_free: None,
    }
}

impl Pair {
    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            self.a.progress();
            self.b.progress();
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "no progress: {:?} {:?}",
                self.a.stats(),
                self.b.stats()
            );
        }
    }

    fn received(&mut self) -> Completion {
        let mut out = None;
        self.until(|p| {
            out = p.b.pop_completion(Side::Recv);
            out.is_some()
        });
        out.unwrap()
    }

    fn sent(&mut self) -> Completion {
        let mut out = None;
        self.until(|p| {
            out = p.a.pop_completion(Side::Send);
            out.is_some()
        });
        out.unwrap()
    }

    /// A message of 8 bytes from A to B.
    fn exchange(&mut self) {
        let (mut from, mut to) = (pattern(8), vec![0; 8]);
        // SAFETY: both buffers outlive the operations, which complete below.
        unsafe {
            self.b.post_recv(&recv_op(7, 1), &[region(&mut to)]).unwrap();
            self.a.post_send(&send_op(self.a_to_b, 7, 2), &[region(&mut from)]).unwrap();
        }
        self.received();
        self.sent();
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn a_watcher_sees_the_counters_grow() {
    let mut p = pair();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let to = std::sync::Arc::clone(&seen);
    p.b.watch(Duration::from_millis(1), move |endpoint| {
        let counters = endpoint.counters();
        let received = counters.iter().find(|(name, _)| *name == "datagrams_received").unwrap();
        to.lock().unwrap().push(received.1);
    });
    for n in 0..3 {
        p.exchange();
        p.until(|_| seen.lock().unwrap().last().is_some_and(|last| *last > n));
    }
    assert!(seen.lock().unwrap().is_sorted());
}

/// An MPI has an endpoint for messages and one for windows, and polls both in turn: asleep at the
/// one, it would not hear of the other.
#[test]
fn who_is_busy_at_one_endpoint_is_not_put_to_sleep_at_another() {
    /// So that what comes between looks like an interruption.
    const POLLS: u32 = 20;
    /// The shortest patience of all, beside a stranger.
    const PATIENCE: Duration = Duration::from_micros(20);
    /// After what time of polls it falls asleep, if it does.
    fn falls_asleep(quiet: &mut Endpoint) -> Option<Duration> {
        let began = Instant::now();
        (0..POLLS).find_map(|_| {
            quiet.progress();
            let pause = quiet.begin_idle()?;
            let asleep = (quiet.sleepers() > 0).then(|| began.elapsed());
            pause.pass();
            quiet.end_idle(&pause);
            asleep
        })
    }
    let (mut p, mut quiet) = (pair(), open(3));
    for _ in 0..2000 {
        p.exchange();
        // Other programs on the core may make the polls themselves last for long enough.
        assert!(falls_asleep(&mut quiet).is_none_or(|after| after >= PATIENCE));
    }
    let began = Instant::now();
    while falls_asleep(&mut quiet).is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "it never sleeps");
    }
}

#[test]
fn every_length_arrives_and_is_counted_once() {
    let mut p = pair();
    for len in [0, 1, 8, 1000, 1400, 1401, 4096, 8192, 8193, 200_000, 3_000_000] {
        for expected in [true, false] {
            let mut from = pattern(len);
            let mut to = vec![0; len];
            // SAFETY: both buffers outlive the operations, which complete below.
            unsafe {
                if expected {
                    p.b.post_recv(&recv_op(7, 1), &[region(&mut to)]).unwrap();
                }
                p.a.post_send(&send_op(p.a_to_b, 7, 2), &[region(&mut from)]).unwrap();
                if !expected {
                    p.until(|p| p.b.unexpected_len() == 1);
                    p.b.post_recv(&recv_op(7, 1), &[region(&mut to)]).unwrap();
                }
            }
            let received = p.received();
            assert_eq!(
                (received.outcome, received.len, received.data),
                (Outcome::Done, len, Some(8))
            );
            assert_eq!((received.source, received.context), (Some(p.b_to_a), 1));
            assert_eq!(p.sent().context, 2);
            assert!(from == to, "{len} bytes differ (expected: {expected})");
        }
    }
    // Every message is counted once on either side, and so is every byte.
    let total = 2 * (1 + 8 + 1000 + 1400 + 1401 + 4096 + 8192 + 8193 + 200_000 + 3_000_000);
    let of = |endpoint: &Endpoint| endpoint.peers().next().unwrap().traffic;
    let (a, b) = (of(&p.a), of(&p.b));
    assert_eq!((a.messages_sent, a.bytes_sent), (22, total));
    assert_eq!((b.messages_received, b.bytes_received), (22, total));
    assert_eq!((a.messages_received, b.messages_sent), (0, 0));
}

#[test]
fn a_buffer_too_short_takes_what_fits() {
    let mut p = pair();
    for len in [100, 5000, 200_000] {
        let (mut from, mut to) = (pattern(len), vec![0; 60]);
        // SAFETY: both buffers outlive the operations.
        unsafe {
            p.b.post_recv(&recv_op(1, 1), &[region(&mut to)]).unwrap();
            p.a.post_send(&send_op(p.a_to_b, 1, 2), &[region(&mut from)]).unwrap();
        }
        let received = p.received();
        assert_eq!((received.outcome, received.len), (Outcome::Truncated(len - 60), 60));
        assert_eq!(to, from[..60]);
        assert_eq!(p.sent().outcome, Outcome::Done);
    }
}

#[test]
fn ten_thousand_unmatched_sends_do_not_hold_up_the_one_that_matches() {
    let mut p = pair();
    let (mut from, mut to) = (pattern(200), vec![0; 200]);
    let (mut last, mut got) = (pattern(90), vec![0; 90]);
    let mut posted = 0;
    // SAFETY: all buffers outlive the operations.
    unsafe {
        p.b.post_recv(&recv_op(2, 1), &[region(&mut got)]).unwrap();
        while posted < 10_000 {
            match p.a.post_send(&send_op(p.a_to_b, 1, 2), &[region(&mut from)]) {
                Ok(()) => posted += 1,
                Err(PostError::Again) => {
                    p.a.progress();
                    p.b.progress();
                }
                Err(why) => panic!("{why:?}"),
            }
        }
        let mut sent = false;
        p.until(|p| {
            sent = sent || p.a.post_send(&send_op(p.a_to_b, 2, 3), &[region(&mut last)]).is_ok();
            sent
        });
    }
    assert_eq!(p.received().tag, 2);
    assert_eq!(got, last);
    assert!(p.a.stats().credit_stalls > 0, "the eager memory was bounded");
    for _ in 0..10_000 {
        to.fill(0);
        // SAFETY: `to` outlives the receive, which completes at once below.
        unsafe { p.b.post_recv(&recv_op(1, 1), &[region(&mut to)]).unwrap() };
        assert_eq!(p.received().len, 200);
        assert!(to == from);
    }
}

/// However much is sent: payload within the credit, and 64 bytes for each message beyond it.
#[test]
fn what_nobody_asked_for_holds_the_credit_and_a_place_for_each_message() {
    const COUNT: usize = 9000;
    const PLACE: usize = CREDIT_PER_MESSAGE as usize;
    for len in [0, 8, 64, 2000, 16 << 10] {
        let mut p = pair();
        let (mut from, mut to) = (pattern(len), vec![0; len]);
        let mut posted = 0;
        p.until(|p| {
            // SAFETY: `from` outlives the sends: each ends before its message has been received.
            let mut post =
                || unsafe { p.a.post_send(&send_op(p.a_to_b, 1, 2), &[region(&mut from)]).is_ok() };
            while posted < COUNT && post() {
                posted += 1;
            }
            p.b.unexpected_len() == COUNT
        });
        let eager = CREDIT_INITIAL as usize / (len + PLACE);
        let beyond = COUNT.saturating_sub(eager);
        // The table has places to spare: an eighth, or as many as it grows by at least.
        let spare = (COUNT / 8).max(256 + 8192) * PLACE;
        // Short ones are not announced, and take no more than another place.
        let content = if len <= UNCREDITED_LEN_MAX { len } else { 0 };
        let most = CREDIT_INITIAL as usize + beyond * (PLACE + content) + spare;
        let held = p.b.unexpected_memory();
        assert!(held <= most, "{COUNT} of {len} bytes: {held} of {most} bytes");
        assert!(held >= COUNT * PLACE, "{held}");
        for _ in 0..COUNT {
            // SAFETY: `to` outlives the receive, which completes below.
            unsafe { p.b.post_recv(&recv_op(1, 1), &[region(&mut to)]).unwrap() };
            assert_eq!(p.received().len, len);
        }
        assert!(to == from);
        assert!(p.b.unexpected_memory() <= 256 * PLACE, "nothing waits any more");
    }
}

/// Of a peer whose messages are received, though late, more may come at once the next time.
#[test]
fn what_was_received_late_lets_more_come_at_once() {
    const COUNT: usize = 60;
    let mut p = pair();
    let (mut from, mut to) = (pattern(16_000), vec![0; 16_000]);
    let mut stalls = Vec::new();
    for _ in 0..2 {
        for _ in 0..COUNT {
            // SAFETY: `from` outlives the sends: each ends before its message has been received.
            unsafe { p.a.post_send(&send_op(p.a_to_b, 1, 2), &[region(&mut from)]).unwrap() };
        }
        p.until(|p| p.b.unexpected_len() == COUNT);
        stalls.push(p.a.stats().credit_stalls);
        for _ in 0..COUNT {
            to.fill(0);
            // SAFETY: `to` outlives the receive, which completes below.
            unsafe { p.b.post_recv(&recv_op(1, 1), &[region(&mut to)]).unwrap() };
            assert_eq!(p.received().len, 16_000);
            assert!(to == from);
        }
        p.exchange();
    }
    // A limit that has risen by less than a quarter of the first is not told at once (R10).
    let untold = (CREDIT_INITIAL / 4).div_ceil(16_000 + CREDIT_PER_MESSAGE);
    assert!(stalls[0] > 2 * untold && stalls[1] - stalls[0] <= untold, "{stalls:?}");
}

/// Found by thousands of outstanding MPI sends of mixed lengths: also a message of no bytes is pulled if it
/// was announced, as one is whose end is that of its receive.
#[test]
fn an_announced_message_without_bytes_completes_a_posted_receive() {
    let mut p = pair();
    let mut to = vec![0; 8];
    // SAFETY: the buffer outlives the operations.
    unsafe {
        p.b.post_recv(&recv_op(2, 1), &[region(&mut to)]).unwrap();
        let op = SendOp { complete: CompleteWhen::Match, ..send_op(p.a_to_b, 2, 3) };
        p.a.post_send(&op, &[]).unwrap();
    }
    let received = p.received();
    assert_eq!((received.tag, received.len, received.outcome), (2, 0, Outcome::Done));
}

#[test]
fn peek_claim_cancel_and_multi_receive() {
    let mut p = pair();
    p.b.peek(&recv_op(5, 50), true);
    assert_eq!(p.received().outcome, Outcome::NoMessage);
    let (mut from, mut to) = (pattern(3000), vec![0; 3000]);
    // SAFETY: the buffers outlive the operations.
    unsafe {
        p.a.post_send(&send_op(p.a_to_b, 5, 2), &[region(&mut from)]).unwrap();
        p.until(|p| p.b.unexpected_len() == 1);
        p.b.peek(&recv_op(5, 51), true);
        assert_eq!((p.received().len, p.b.unexpected_len()), (3000, 1));
        assert_eq!(p.b.post_claimed(&recv_op(5, 52), &[]), Err(PostError::NotClaimed));
        p.b.post_claimed(&recv_op(5, 51), &[region(&mut to)]).unwrap();
        assert_eq!(p.received().context, 51);
        assert!(from == to);

        p.b.post_recv(&recv_op(9, 60), &[region(&mut to)]).unwrap();
        assert!(p.b.cancel(60) && !p.b.cancel(60));
        assert_eq!(p.received().outcome, Outcome::Canceled);

        let mut pool = vec![0; 10_000];
        let op = RecvOp { multi_min_free: Some(3000), ..recv_op(6, 70) };
        p.b.post_recv(&op, &[region(&mut pool)]).unwrap();
        for n in 0..3 {
            p.a.post_send(&send_op(p.a_to_b, 6, 2), &[region(&mut from)]).unwrap();
            let received = p.received();
            assert_eq!((received.len, received.multi_released), (3000, n == 2));
            assert_eq!(received.buf, pool.as_mut_ptr().add(3000 * n));
            assert!(pool[3000 * n..][..3000] == from);
        }
    }
}

/// A long one is announced and pulled, which costs no credit: nor does it bring any.
#[test]
fn a_long_active_message_gives_no_credit_back() {
    let mut p = pair();
    let op = SendOp { class: Class::Active, ..send_op(p.a_to_b, 1, 2) };
    let mut from = pattern(1 << 20);
    // SAFETY: `from` outlives the send, which completes below.
    unsafe { p.a.post_send(&op, &[region(&mut from)]).unwrap() };
    let mut message = None;
    p.until(|p| {
        message = p.b.pop_active();
        message.is_some()
    });
    assert!(message.unwrap().payload == from);
    p.sent();
    p.exchange();
    let mut back = pattern(8);
    // SAFETY: `back` outlives the send, which completes below.
    unsafe { p.b.post_send(&send_op(p.b_to_a, 7, 2), &[region(&mut back)]).unwrap() };
    p.until(|p| p.a.unexpected_len() == 1 && p.b.pop_completion(Side::Send).is_some());
    let credit_left = p.a.peers().next().unwrap().credit_left;
    assert!(credit_left <= CREDIT_INITIAL, "{credit_left}");
}

#[test]
fn a_copy_arrives_whole_after_its_buffer_has_gone() {
    let mut p = pair();
    for len in [0, 8, 20_000, 200_000, 4 << 20] {
        let mut from = pattern(len);
        p.a.send_copy(p.a_to_b, 7, len + 1, &from).unwrap();
        // Whoever still reads it sends this.
        from.fill(0xee);
        let mut message = None;
        p.until(|p| {
            message = message.take().or_else(|| p.b.pop_active());
            message.is_some()
        });
        let message = message.unwrap();
        assert!(message.payload == pattern(len) && message.handler == 7, "{len}");
        assert_eq!(p.sent().context, len + 1);
    }
    let too_long = vec![0; wiglaf_endpoint::ACTIVE_LEN_MAX + 1];
    assert_eq!(p.a.send_copy(p.a_to_b, 7, 1, &too_long), Err(PostError::TooLong));
}

#[test]
fn a_closed_peer_ends_what_waits_for_it() {
    let mut p = pair();
    let (mut from, mut to) = (pattern(50_000), vec![0; 8]);
    let b_to_a = p.b_to_a;
    // SAFETY: the buffers outlive the operations.
    unsafe {
        p.a.post_send(&send_op(p.a_to_b, 1, 2), &[region(&mut from[..8])]).unwrap();
        p.b.post_recv(&recv_op(1, 1), &[region(&mut to)]).unwrap();
        assert_eq!(p.received().outcome, Outcome::Done);
        p.b.post_recv(&RecvOp { from: Some(b_to_a), ..recv_op(2, 3) }, &[region(&mut to)]).unwrap();
        p.a.post_send(&send_op(p.a_to_b, 4, 2), &[region(&mut from[..8])]).unwrap();
        p.until(|p| p.b.unexpected_len() == 1);
        let closer = std::thread::spawn(move || p.a.close());
        let began = Instant::now();
        let ended = loop {
            p.b.progress();
            if let Some(c) = p.b.pop_completion(Side::Recv) {
                break c;
            }
            assert!(began.elapsed() < Duration::from_secs(20));
        };
        assert_eq!((ended.context, ended.outcome), (3, Outcome::PeerGone));
        while !closer.is_finished() {
            p.b.progress();
        }
        let refused = p.b.post_send(&send_op(b_to_a, 1, 2), &[region(&mut to)]);
        assert_eq!(refused, Err(PostError::PeerGone));
        // What it has left can be received still; nothing else will come.
        let directed = |tag, context| RecvOp { from: Some(b_to_a), ..recv_op(tag, context) };
        let many = RecvOp { multi_min_free: Some(1), ..directed(6, 6) };
        p.b.post_recv(&recv_op(7, 7), &[region(&mut to)]).unwrap();
        for op in [directed(4, 4), directed(5, 5), many] {
            p.b.post_recv(&op, &[region(&mut to)]).unwrap();
        }
        let ended: Vec<_> = std::iter::from_fn(|| p.b.pop_completion(Side::Recv))
            .map(|c| (c.context, c.outcome, c.multi_released))
            .collect();
        let gone = Outcome::PeerGone;
        assert_eq!(ended, [(4, Outcome::Done, false), (5, gone, false), (6, gone, true)]);
        assert!(to == from[..8]);
        assert!(p.b.cancel(7), "it may come from anybody");
    }
}

/// Sends an ordered datagram as endpoint 1 would to endpoint 2.
fn say(socket: &UdpSocket, to: SocketAddrV4, sequence: u64, records: &[Record<'_>]) {
    let mut datagram = vec![0; HEADER_LEN];
    for record in records {
        let at = datagram.len();
        datagram.resize(at + record.len(), 0);
        record.emit(&mut datagram[at..]);
    }
    let (kind, source, destination) = (Kind::Ordered, Epoch(1), Epoch(2));
    let header = Header { kind, source, destination, sequence, ..Header::EMPTY };
    seal(&header, &KEY, &mut datagram);
    socket.send_to(&datagram, to).unwrap();
}

/// The far end of a message in parts says good-bye in the middle of it, or is heard no more.
#[test]
fn a_message_whose_rest_never_comes_ends_its_receive() {
    for (says_good_bye, is_posted_before) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut b = open_for(2, Duration::from_millis(200));
        let (mut to, message) = (vec![0; 50_000], pattern(50_000));
        let at = b.name().at;
        // SAFETY: the buffer outlives the endpoint's last progress.
        let post = |b: &mut Endpoint, to: &mut [u8]| unsafe {
            b.post_recv(&recv_op(1, 5), &[region(to)]).unwrap();
        };
        if is_posted_before {
            post(&mut b, &mut to);
        }
        let envelope = Envelope::new(Class::Tagged, 1, None);
        let first = Record::First { envelope, total: 50_000, payload: &message[..600] };
        say(&far, at, 0, &[first, Record::Next(&message[600..1200])]);
        if says_good_bye {
            say(&far, at, 1, &[Record::Close]);
        }
        let began = Instant::now();
        let why = loop {
            b.progress();
            if let Some((_, why)) = b.pop_gone() {
                break why;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", b.stats());
        };
        assert_eq!(why, if says_good_bye { Gone::Closed } else { Gone::Silent });
        if !is_posted_before {
            assert!(b.pop_completion(Side::Recv).is_none());
            post(&mut b, &mut to);
        }
        let ended = b.pop_completion(Side::Recv).expect("the receive has ended");
        assert_eq!((ended.context, ended.outcome), (5, Outcome::PeerGone), "{why:?}");
        assert!(to[..1200] == message[..1200] && b.pop_completion(Side::Recv).is_none());
    }
}

#[test]
fn messages_of_groups_are_matched_apart() {
    let mut p = pair();
    let step =
        |tag, context| SendOp { class: Class::Collective, ..send_op(p.a_to_b, tag, context) };
    let any = |class| RecvOp { class, ignore: u64::MAX, ..recv_op(0, 1) };
    let (ours, longer) = ([step(5, 10), step(6, 11)], SendOp { inject: true, ..step(7, 12) });
    let (mut from, mut to) = (pattern(200_000), vec![0; 200_000]);
    // SAFETY: the buffers outlive the operations.
    unsafe {
        // Receives of anything that were there before see none of it.
        p.b.post_recv(&any(Class::Tagged), &[region(&mut to)]).unwrap();
        p.b.post_recv(&any(Class::Untagged), &[region(&mut to)]).unwrap();
        for op in &ours {
            p.a.post_send(op, &[region(&mut from[..8])]).unwrap();
        }
        // Long, and its buffer is free at once all the same.
        p.a.post_send(&longer, &[region(&mut from)]).unwrap();
        from.fill(0);
        p.until(|p| p.b.unexpected_len() == 3);
        assert!(!p.b.has_completed(Side::Recv) && !p.a.has_completed(Side::Send));
        for context in [10, 11] {
            assert_eq!(p.a.pop_step().map(|c| c.context), Some(context));
        }
        // One is wanted, one dropped, one comes whole.
        let wanted = |tag| RecvOp { class: Class::Collective, ..recv_op(tag, tag as usize) };
        p.b.post_recv(&wanted(6), &[region(&mut to)]).unwrap();
        assert_eq!(p.b.pop_step().map(|c| (c.context, c.len)), Some((6, 8)));
        p.b.drop_steps(|_, tag, data| (tag, data) == (5, Some(6)));
        assert_eq!(p.b.unexpected_len(), 1);
        p.b.post_recv(&wanted(7), &[region(&mut to)]).unwrap();
        let mut ended = None;
        p.until(|p| {
            ended = p.b.pop_step();
            ended.is_some()
        });
        assert_eq!(ended.map(|c| (c.context, c.outcome)), Some((7, Outcome::Done)));
        assert!(to == pattern(200_000));
        p.until(|p| p.a.pop_step().is_some_and(|c| c.context == 12));
        // Users cancel their own receives only.
        p.b.post_recv(&wanted(8), &[region(&mut to)]).unwrap();
        assert!(!p.b.cancel(8) && p.b.withdraw_step(8) && !p.b.withdraw_step(8));
        assert!(p.b.pop_step().is_none() && p.b.pop_completion(Side::Recv).is_none());
    }
}

/// Credit bounds what comes unasked; the rest is not fetched before there is room.
#[test]
fn active_messages_that_nobody_takes_stay_with_their_sender() {
    const COUNT: u64 = 10_000;
    const LEN: usize = 4096;
    let mut p = pair();
    let mut from = pattern(LEN);
    let mut posted = 0;
    while posted < COUNT {
        let op = SendOp { class: Class::Active, data: Some(posted), ..send_op(p.a_to_b, 1, 2) };
        // SAFETY: `from` outlives the sends, which complete below.
        match unsafe { p.a.post_send(&op, &[region(&mut from)]) } {
            Ok(()) => posted += 1,
            Err(why) => assert_eq!(why, PostError::Again),
        }
        p.a.progress();
        p.b.progress();
    }
    p.until(|p| p.b.active_len() as u64 == COUNT);
    for _ in 0..100 {
        p.a.progress();
        p.b.progress();
    }
    assert!(p.b.active_held() <= CREDIT_INITIAL + LEN as u64, "{}", p.b.active_held());
    for n in 0..COUNT {
        let mut message = None;
        p.until(|p| {
            message = p.b.pop_active();
            message.is_some()
        });
        let message = message.unwrap();
        assert_eq!(message.data, Some(n));
        assert!(message.payload == from);
    }
    assert_eq!((p.b.active_len(), p.b.active_held()), (0, 0));
    for _ in 0..COUNT {
        assert_eq!(p.sent().outcome, Outcome::Done);
    }
}
