//! One-sided operations between two endpoints over loopback links, with and
//! without faults.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use wiglaf_endpoint::{
    ATOMIC_LEN_MAX, Access, AtomicOp, Class, Completion, Element, Endpoint, Epoch, Function, Hold,
    JobKey, Outcome, PeerId, PostError, Refusal, Region, RemoteOp, Setup, Side,
};
use wiglaf_link::fault::{Fault, Rates};
use wiglaf_link::{Deliver, Limits, Link, Sent, Train, Unreachable};
use wiglaf_link_udp::UdpLink;

const BOTH: Access = Access { read: true, write: true };
const READ: Access = Access { read: true, write: false };
const KEY: u64 = 0xbeef;
const BASE: u64 = 0x1000;

struct Pair {
    a: Endpoint,
    b: Endpoint,
    peer: PeerId,
}

/// Acknowledges, and says nothing else: of what is sent only control datagrams get through.
struct Acknowledging(UdpLink);

impl Link for Acknowledging {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn local(&self) -> SocketAddrV4 {
        self.0.local()
    }

    fn bulk_port(&self) -> u16 {
        self.0.bulk_port()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        self.0.reaches(to)
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        /// Where a datagram has its kind, and that of control datagrams.
        const KIND: (usize, u8) = (2, 3);
        if train.bytes[KIND.0] == KIND.1 { self.0.send(train) } else { Ok(Sent::All) }
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        self.0.recv_trains(deliver)
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.0.take_unreachable()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.0.wait_fds()
    }
}

fn udp() -> UdpLink {
    UdpLink::open(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn open(epoch: u64, faults: Option<Rates>) -> Endpoint {
    let link: Box<dyn Link> = match faults {
        Some(rates) => Box::new(Fault::new(udp(), epoch, rates)),
        None => Box::new(udp()),
    };
    open_over(epoch, link)
}

fn open_over(epoch: u64, link: Box<dyn Link>) -> Endpoint {
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey([9; 16]),
        links: vec![link],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

fn pair(faults: Option<Rates>) -> Pair {
    pair_of(open(1, faults), open(2, faults))
}

fn pair_of(mut a: Endpoint, mut b: Endpoint) -> Pair {
    let peer = a.insert(b.name());
    b.insert(a.name());
    Pair { a, b, peer }
}

fn region(bytes: &mut [u8]) -> Region {
    Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

impl Pair {
    fn op(&self, address: u64, context: usize) -> RemoteOp {
        RemoteOp {
            peer: self.peer,
            key: KEY,
            address,
            data: None,
            context,
            report: true,
            inject: false,
            hold: Hold::Nothing,
        }
    }

    /// Lets the target's memory be reached from `BASE` on.
    fn expose(&self, memory: &mut [u8], access: Access) {
        // SAFETY: the tests' memory outlives their pairs' last progress.
        unsafe { self.b.exposed().expose(KEY, BASE, access, &[region(memory)]).unwrap() };
    }

    fn next(&mut self, side: Side) -> Completion {
        let began = Instant::now();
        loop {
            self.a.progress();
            self.b.progress();
            let from = if side == Side::Send { &mut self.a } else { &mut self.b };
            if let Some(completion) = from.pop_completion(side) {
                return completion;
            }
            let (a, b) = (self.a.stats(), self.b.stats());
            assert!(began.elapsed() < Duration::from_secs(30), "no progress: {a:?} {b:?}");
        }
    }

    fn write(&mut self, op: &RemoteOp, bytes: &mut [u8]) -> Completion {
        // SAFETY: `bytes` outlives the operation, whose end is awaited.
        unsafe { self.a.post_write(op, &[region(bytes)]).unwrap() };
        self.next(Side::Send)
    }

    fn read(&mut self, op: &RemoteOp, bytes: &mut [u8]) -> Completion {
        // SAFETY: as in `write`.
        unsafe { self.a.post_read(op, &[region(bytes)]).unwrap() };
        self.next(Side::Send)
    }
}

#[test]
fn every_length_is_written_and_read() {
    let mut p = pair(None);
    let mut memory = vec![0; 3_000_010];
    p.expose(&mut memory, BOTH);
    for len in [0, 1, 8, 1400, 1401, 8192, 32_768, 32_769, 3_000_000] {
        let (mut from, mut to) = (pattern(len), vec![0; len]);
        let written = p.write(&p.op(BASE + 5, 11), &mut from);
        assert_eq!((written.outcome, written.context, written.len), (Outcome::Done, 11, len));
        assert_eq!(written.class, Class::Write);
        let read = p.read(&p.op(BASE + 5, 12), &mut to);
        assert_eq!((read.outcome, read.context, read.class), (Outcome::Done, 12, Class::Read));
        assert_eq!(from, to, "{len}");
    }
    assert_eq!(memory[..5], [0; 5]);
    assert_eq!(p.b.remote_stats().performed, 18);
}

#[test]
fn what_is_refused_changes_nothing() {
    for (access, address, key, why) in [
        (Access { read: true, write: false }, BASE, KEY, Refusal::Access),
        (BOTH, BASE, KEY + 1, Refusal::Key),
        (BOTH, BASE + 1, KEY, Refusal::Bounds),
        (BOTH, BASE - 1, KEY, Refusal::Bounds),
        (BOTH, u64::MAX, KEY, Refusal::Bounds),
    ] {
        for len in [8, 20_000, 200_000] {
            let mut p = pair(None);
            let mut memory = vec![0; len];
            p.expose(&mut memory, access);
            let op = RemoteOp { key, data: Some(1), ..p.op(address, 0) };
            let ended = p.write(&op, &mut pattern(len));
            assert_eq!(ended.outcome, Outcome::Refused(why), "{len}");
            assert!(memory.iter().all(|byte| *byte == 0), "{why:?} {len}");
            assert!(p.b.pop_completion(Side::Recv).is_none(), "data of a refused write");
            let stats = p.b.remote_stats();
            let refused = [stats.refused_access, stats.refused_key, stats.refused_bounds];
            assert_eq!((stats.performed, refused.iter().sum::<u64>()), (0, 1));
        }
    }
    let mut p = pair(None);
    let (mut memory, mut to) = (vec![7; 200_000], vec![0; 200_000]);
    p.expose(&mut memory, Access { read: false, write: true });
    let read = p.read(&p.op(BASE, 0), &mut to);
    assert_eq!(read.outcome, Outcome::Refused(Refusal::Access));
    assert!(to.iter().all(|byte| *byte == 0));
}

#[test]
fn data_is_reported_at_the_target() {
    let mut p = pair(None);
    let mut memory = vec![0; 200_000];
    p.expose(&mut memory, BOTH);
    for len in [0, 100, 200_000] {
        let op = RemoteOp { data: Some(99), ..p.op(BASE, 3) };
        assert_eq!(p.write(&op, &mut pattern(len)).outcome, Outcome::Done);
        let event = p.next(Side::Recv);
        assert_eq!((event.class, event.data, event.len), (Class::Write, Some(99), len));
    }
    p.b.report_remote(true);
    p.write(&p.op(BASE, 3), &mut [1]);
    assert_eq!(p.next(Side::Recv).data, None);
    p.read(&p.op(BASE, 3), &mut [1]);
    assert_eq!(p.next(Side::Recv).class, Class::Read);
}

#[test]
fn atomics_fetch_and_change() {
    let mut p = pair(None);
    let mut memory = vec![0; 64];
    memory[8..16].copy_from_slice(&40u64.to_le_bytes());
    p.expose(&mut memory, BOTH);
    let (mut two, mut old) = (2u64.to_le_bytes(), [0; 8]);
    let add = AtomicOp { element: Element::U64, function: Function::Sum, fetch: true };
    // SAFETY: all buffers outlive the operations, whose ends are awaited.
    unsafe {
        let op = p.op(BASE + 8, 1);
        p.a.post_atomic(&op, add, &[region(&mut two)], &[], &[region(&mut old)]).unwrap();
        let done = p.next(Side::Send);
        assert_eq!((done.outcome, done.class, done.len), (Outcome::Done, Class::Fetch, 8));
        assert_eq!((u64::from_le_bytes(old), memory[8]), (40, 42));
        let swap = AtomicOp { function: Function::SwapIfEqual, ..add };
        let mut expected = 42u64.to_le_bytes();
        let (two, expected, result) =
            ([region(&mut two)], [region(&mut expected)], [region(&mut old)]);
        p.a.post_atomic(&op, swap, &two, &expected, &result).unwrap();
        assert_eq!(p.next(Side::Send).outcome, Outcome::Done);
        assert_eq!((u64::from_le_bytes(old), memory[8]), (42, 2));
        // Refused at home: what no target could make sense of.
        let both = AtomicOp { element: Element::F64, function: Function::BitOr, fetch: true };
        let unsupported = Err(PostError::Unsupported);
        assert_eq!(p.a.post_atomic(&op, both, &two, &[], &result), unsupported);
        assert_eq!(p.a.post_atomic(&op, swap, &two, &[], &result), unsupported);
        let silent = AtomicOp { fetch: false, ..swap };
        assert_eq!(p.a.post_atomic(&op, silent, &two, &expected, &[]), unsupported);
        let mut long = vec![0; ATOMIC_LEN_MAX];
        let sum = AtomicOp { fetch: false, ..add };
        let refused = p.a.post_atomic(&op, sum, &[region(&mut long)], &[], &[]);
        assert_eq!(refused, Err(PostError::TooLong));
    }
}

/// Which functions there are, and which right each needs.
const ATOMICS: [(Function, bool, Access); 6] = [
    (Function::Sum, false, Access { read: false, write: true }),
    (Function::Write, false, Access { read: false, write: true }),
    (Function::Sum, true, BOTH),
    (Function::SwapIfEqual, true, BOTH),
    (Function::MaskedSwap, true, BOTH),
    (Function::Read, true, Access { read: true, write: false }),
];

#[test]
fn an_atomic_that_is_refused_reads_and_changes_nothing() {
    let rights = [(false, false), (true, false), (false, true), (true, true)]
        .map(|(read, write)| Access { read, write });
    for (function, fetch, needed) in ATOMICS {
        for access in rights {
            let is_granted = (access.read || !needed.read) && (access.write || !needed.write);
            let right = (!is_granted).then_some(Refusal::Access);
            // Without a right, neither key nor place tell anything.
            let places = [
                (KEY, BASE, right),
                (KEY + 1, BASE, Some(Refusal::Key)),
                (KEY, BASE + 1, right.or(Some(Refusal::Bounds))),
                (KEY, BASE - 1, right.or(Some(Refusal::Bounds))),
            ];
            for (key, address, refusal) in places {
                let (mut p, mut memory) = (pair(None), 40_u64.to_le_bytes());
                p.expose(&mut memory, access);
                let (mut operand, mut comparand) = (2_u64.to_le_bytes(), 40_u64.to_le_bytes());
                let mut fetched = [9; 8];
                let op = RemoteOp { key, ..p.op(address, 1) };
                let atomic = AtomicOp { element: Element::U64, function, fetch };
                let operands = [region(&mut operand)];
                let operands = if function == Function::Read { &[][..] } else { &operands[..] };
                let comparands = [region(&mut comparand)];
                let compares = matches!(function, Function::SwapIfEqual | Function::MaskedSwap);
                let comparands = if compares { &comparands[..] } else { &[][..] };
                let results = [region(&mut fetched)];
                let results = if fetch { &results[..] } else { &[][..] };
                // SAFETY: all buffers outlive the operation, whose end is awaited.
                unsafe { p.a.post_atomic(&op, atomic, operands, comparands, results).unwrap() };
                let ended = p.next(Side::Send).outcome;
                let expected = refusal.map_or(Outcome::Done, Outcome::Refused);
                assert_eq!(ended, expected, "{function:?} {fetch} {access:?} {key:x} {address:x}");
                let (value, old) = (u64::from_le_bytes(memory), u64::from_le_bytes(fetched));
                let is_changed = refusal.is_none() && function != Function::Read;
                assert_eq!(value != 40, is_changed, "{function:?} {fetch} {access:?}: {value}");
                let untouched = u64::from_le_bytes([9; 8]);
                let seen = if refusal.is_none() && fetch { 40 } else { untouched };
                assert_eq!(old, seen, "{function:?} {access:?}");
            }
        }
    }
}

/// Far more than the target keeps for a peer, whether they come with credit or are announced.
#[test]
fn many_long_fetches_at_once_have_all_their_answers() {
    const COUNT: usize = 300;
    const LEN: usize = ATOMIC_LEN_MAX - 8;
    for function in [Function::Read, Function::Sum] {
        let mut p = pair(None);
        let mut memory = vec![0; LEN];
        p.expose(&mut memory, BOTH);
        let mut ones: Vec<u8> = 1u64.to_le_bytes().repeat(LEN / 8);
        let operands = [region(&mut ones)];
        let operands = if function == Function::Read { &[] } else { &operands[..] };
        let mut results = vec![vec![0xff; LEN]; COUNT];
        let atomic = AtomicOp { element: Element::U64, function, fetch: true };
        for (number, result) in results.iter_mut().enumerate() {
            let (op, result) = (p.op(BASE, number), [region(result)]);
            // SAFETY: all buffers outlive the operations, whose ends are awaited.
            while let Err(why) = unsafe { p.a.post_atomic(&op, atomic, operands, &[], &result) } {
                assert_eq!(why, PostError::Again);
                p.a.progress();
                p.b.progress();
            }
        }
        for _ in 0..COUNT {
            assert_eq!(p.next(Side::Send).outcome, Outcome::Done);
        }
        // Each found what a different number of the others had left.
        let first = |result: &Vec<u8>| u64::from_le_bytes(result[..8].try_into().unwrap());
        let mut seen: Vec<u64> = results.iter().map(first).collect();
        seen.sort_unstable();
        let wanted = (0..COUNT as u64).map(|n| if function == Function::Read { 0 } else { n });
        assert!(seen.iter().copied().eq(wanted), "{function:?}: {seen:?}");
        for result in &results {
            assert!(result.chunks(8).all(|element| element == &result[..8]));
        }
    }
}

/// A counter or a table that its owner has mapped to be read only: storing what was read ends him.
#[test]
fn an_atomic_read_stores_nothing() {
    let output = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["--exact", "elements_of_read_only_memory", "--ignored", "--nocapture"])
        .output()
        .expect("the test binary runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{}\n{said}", output.status);
}

#[test]
#[ignore = "may end its process"]
fn elements_of_read_only_memory() {
    const LEN: usize = 4096;
    let mut p = pair(None);
    // SAFETY: a fresh mapping, which is written before it is closed to that, and lives as long as the
    // process.
    let (memory, bytes) = unsafe {
        let (both, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let at = mmap_anonymous(std::ptr::null_mut(), LEN, both, private).unwrap();
        let bytes = pattern(LEN);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), LEN);
        mprotect(at, LEN, MprotectFlags::READ).unwrap();
        (Region { ptr: at.cast(), len: LEN }, bytes)
    };
    // SAFETY: as above.
    unsafe { p.b.exposed().expose(KEY, BASE, READ, &[memory]).unwrap() };
    let elements = [
        (Element::U8, 1),
        (Element::U16, 2),
        (Element::U32, 4),
        (Element::U64, 8),
        (Element::U128, 16),
        (Element::C64, 16),
    ];
    for (element, len) in elements {
        // Aligned, and not.
        for at in [16, 17] {
            let read = AtomicOp { element, function: Function::Read, fetch: true };
            let mut old = vec![0; 2 * len];
            // SAFETY: the buffer outlives the operation, whose end is awaited.
            unsafe {
                let op = p.op(BASE + at as u64, 1);
                p.a.post_atomic(&op, read, &[], &[], &[region(&mut old)]).unwrap();
            }
            assert_eq!(p.next(Side::Send).outcome, Outcome::Done);
            assert_eq!(old, bytes[at..at + 2 * len], "{element:?} at {at}");
        }
    }
}

/// Each of many increments must count exactly once, whatever the link does.
#[test]
fn atomics_happen_once_over_a_faulty_link() {
    const COUNT: usize = 3000;
    let faults = Rates { drop: 0.05, duplicate: 0.05, reorder: 0.1, corrupt: 0.02 };
    let mut p = pair(Some(faults));
    let mut memory = vec![0; 8];
    p.expose(&mut memory, BOTH);
    let mut one = 1u64.to_le_bytes();
    let mut fetched = vec![[0u8; 8]; COUNT];
    let (mut posted, mut done) = (0, 0);
    let began = Instant::now();
    while done < COUNT {
        while posted < COUNT && posted - done < 64 {
            let fetch = posted % 2 == 0;
            let add = AtomicOp { element: Element::U64, function: Function::Sum, fetch };
            let result = [region(&mut fetched[posted])];
            // SAFETY: operands and results outlive the loop that awaits all ends.
            let taken = unsafe {
                let results = if fetch { &result[..] } else { &[] };
                p.a.post_atomic(&p.op(BASE, posted), add, &[region(&mut one)], &[], results)
            };
            if taken == Err(PostError::Again) {
                break;
            }
            taken.unwrap();
            posted += 1;
        }
        p.a.progress();
        p.b.progress();
        while let Some(completion) = p.a.pop_completion(Side::Send) {
            assert_eq!(completion.outcome, Outcome::Done);
            done += 1;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", p.a.stats());
    }
    assert_eq!(memory, (COUNT as u64).to_le_bytes());
    let fetching = fetched.iter().step_by(2).map(|old| u64::from_le_bytes(*old));
    assert!(fetching.eq((0..COUNT as u64).step_by(2)), "each saw those before it, once");
    let retransmitted = p.a.stats().ordered_retransmitted + p.b.stats().ordered_retransmitted;
    assert!(retransmitted > 0 && p.b.stats().duplicates > 0, "the link was faulty");
}

#[test]
fn large_transfers_survive_a_faulty_link() {
    let faults = Rates { drop: 0.03, duplicate: 0.03, reorder: 0.1, corrupt: 0.01 };
    let mut p = pair(Some(faults));
    let mut memory = vec![0; 600_000];
    p.expose(&mut memory, BOTH);
    let (mut from, mut to) = (pattern(600_000), vec![0; 600_000]);
    assert_eq!(p.write(&p.op(BASE, 0), &mut from).outcome, Outcome::Done);
    assert_eq!(p.read(&p.op(BASE, 0), &mut to).outcome, Outcome::Done);
    assert!(from == to && from == memory);
}

#[test]
fn ordered_operations_see_each_other() {
    let mut p = pair(None);
    let mut memory = vec![0; 200_000];
    p.expose(&mut memory, BOTH);
    let (mut long, mut short, mut seen) = (vec![1; 200_000], [2; 10], vec![0; 200_000]);
    let ordered = RemoteOp { hold: Hold::Order, ..p.op(BASE, 0) };
    // SAFETY: all buffers outlive the operations, whose ends are awaited.
    unsafe {
        p.a.post_write(&ordered, &[region(&mut long)]).unwrap();
        let inject = RemoteOp { inject: true, ..ordered };
        p.a.post_write(&inject, &[region(&mut short)]).unwrap();
        short = [9; 10]; // it was injected: the buffer is ours again
        p.a.post_read(&ordered, &[region(&mut seen)]).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(p.next(Side::Send).outcome, Outcome::Done);
    }
    assert_eq!(short, [9; 10]);
    assert!(seen[..10] == [2; 10] && seen[10..].iter().all(|byte| *byte == 1));
}

#[test]
fn a_peer_that_leaves_ends_what_is_under_way() {
    let mut p = pair(None);
    let refused = p.write(&p.op(BASE, 3), &mut [1]); // they have met
    assert_eq!(refused.outcome, Outcome::Refused(Refusal::Key));
    let mut long = vec![0; 200_000];
    // SAFETY: the buffer outlives the operations, whose ends are awaited.
    unsafe {
        p.a.post_write(&p.op(BASE, 4), &[region(&mut long)]).unwrap();
        let fenced = RemoteOp { hold: Hold::Fence, ..p.op(BASE, 5) };
        p.a.post_read(&fenced, &[region(&mut long)]).unwrap();
    }
    let Pair { mut a, b, .. } = p;
    drop(b); // like a process that was killed
    let began = Instant::now();
    let mut outcomes = Vec::new();
    while outcomes.len() < 2 {
        a.progress();
        outcomes.extend(a.pop_completion(Side::Send).map(|c| (c.context, c.outcome)));
        assert!(began.elapsed() < Duration::from_secs(20), "{outcomes:?}");
    }
    outcomes.sort_by_key(|(context, _)| *context);
    assert_eq!(outcomes, [(4, Outcome::PeerGone), (5, Outcome::PeerGone)]);
}

/// The operations have been acknowledged, so nothing is sent to the dead but to ask after it.
#[test]
fn who_awaits_answers_of_the_dead_is_told() {
    const COUNT: usize = 5;
    let mut p = pair_of(open(1, None), open_over(2, Box::new(Acknowledging(udp()))));
    let mut memory = vec![7; 8];
    p.expose(&mut memory, BOTH);
    let mut to = [[0; 8]; COUNT];
    for (context, to) in to.iter_mut().enumerate() {
        // SAFETY: the buffers outlive the operations, whose ends are awaited.
        unsafe { p.a.post_read(&p.op(BASE, context), &[region(to)]).unwrap() };
    }
    let began = Instant::now();
    while p.b.remote_stats().performed < COUNT as u64 || p.a.peer(p.peer).unwrap().in_flight > 0 {
        p.a.progress();
        p.b.progress();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", p.a.stats());
    }
    let Pair { mut a, b, .. } = p;
    assert!(a.pop_completion(Side::Send).is_none(), "nothing was answered");
    drop(b); // like a process that was killed
    let mut outcomes = Vec::new();
    while outcomes.len() < COUNT {
        a.progress();
        outcomes.extend(a.pop_completion(Side::Send).map(|c| c.outcome));
        assert!(began.elapsed() < Duration::from_secs(20), "{outcomes:?}");
    }
    assert_eq!(outcomes, [Outcome::PeerGone; COUNT]);
}
