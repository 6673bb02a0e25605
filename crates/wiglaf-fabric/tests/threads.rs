//! Many threads on one endpoint at once (FI_THREAD_SAFE). Run under ThreadSanitizer by
//! `cargo xtask tsan`; what it checks by itself are contents, counts and wake-ups.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ops::{Home, Side, UNSPEC, call, fi, in_child};
use wiglaf_testnet::Pair;

/// Threads of each endpoint.
const THREADS: usize = 4;
/// Messages of each thread in each direction.
const ROUNDS: usize = 48;
/// Payload lengths: nothing, one frame, several frames, several trains.
const LENS: [usize; 6] = [0, 8, 1300, 20_000, 150_000, 1 << 20];

/// An operation on its way; its address is its context.
#[derive(Default)]
struct Op {
    done: AtomicBool,
    len: AtomicUsize,
}

impl Op {
    fn context(&self) -> *mut libc::c_void {
        ptr::from_ref(self).cast_mut().cast()
    }
}

/// Takes what has completed, whosever it is: threads share the queue. Some of them block.
fn settle(cq: *mut fi::fid_cq, block: bool) {
    let mut entries: [fi::fi_cq_tagged_entry; 4] = ops::zeroed();
    let buf = entries.as_mut_ptr().cast();
    let n = if block {
        call!(cq, ops.sread(cq, buf, entries.len(), ptr::null(), 20))
    } else {
        call!(cq, ops.read(cq, buf, entries.len()))
    };
    assert!(n >= 0 || n == -(fi::FI_EAGAIN as isize), "an operation failed: {n}");
    for entry in &entries[..usize::try_from(n).unwrap_or(0)] {
        // SAFETY: a context is the address of an `Op`, which outlives its operation.
        let op = unsafe { &*entry.op_context.cast::<Op>() };
        op.len.store(entry.len, Ordering::Relaxed);
        op.done.store(true, Ordering::Release);
    }
}

fn until_done(cq: *mut fi::fid_cq, op: &Op, block: bool) {
    while !op.done.load(Ordering::Acquire) {
        settle(cq, block);
    }
}

fn pattern(seed: usize, out: &mut [u8]) {
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = (seed * 37 + i * 11 + i / 253) as u8;
    }
}

/// Bytes of the memory that each thread lets its partner write to.
const WINDOW_LEN: usize = 20_000;
/// Every so many rounds it does.
const WRITE_STRIDE: usize = 4;

fn key(me: usize, thread: usize) -> u64 {
    (me * THREADS + thread + 1) as u64
}

/// Registers `window` under the thread's key.
fn register(home: &Home, window: &mut [u8], key: u64) -> *mut fi::fid_mr {
    let (domain, mut mr) = (home.domain, ptr::null_mut());
    let (fid, buf) = (domain.cast::<fi::fid>(), window.as_mut_ptr().cast());
    let (access, context) = (fi::FI_REMOTE_WRITE, ptr::null_mut());
    let code =
        call!(domain, mr.reg(fid, buf, window.len(), access, 0, key, 0, &raw mut mr, context));
    assert_eq!(code, 0, "mr_reg");
    mr
}

/// Writes to the partner's memory, and returns when it is there.
fn write(side: &Side, peer: fi::fi_addr_t, key: u64, bytes: &[u8], block: bool) {
    let written = Op::default();
    let (ep, buf, none) = (side.ep, bytes.as_ptr().cast(), ptr::null_mut());
    loop {
        let posted =
            call!(ep, rma.write(ep, buf, bytes.len(), none, peer, 0, key, written.context()));
        if posted == 0 {
            break;
        }
        assert_eq!(posted, -(fi::FI_EAGAIN as isize), "write");
        settle(side.tx, false);
    }
    until_done(side.tx, &written, block);
}

/// What one thread does: it exchanges messages with the thread of the same number, and now and then
/// writes to its memory. A message that follows tells the other that it may look.
fn work(home: &Home, side: &Side, peer: fi::fi_addr_t, (me, thread): (usize, usize)) {
    let longest = LENS[LENS.len() - 1];
    let (mut out, mut into, mut want) = (vec![0; longest], vec![0; longest], vec![0; longest]);
    let tag = thread as u64;
    let block = thread.is_multiple_of(2);
    let mut window = vec![0; WINDOW_LEN];
    let window_at = window.as_mut_ptr();
    let mr = register(home, &mut window, key(me, thread));
    // The partner's memory is registered when it has said so.
    let mut is_open = false;
    for round in 0..ROUNDS {
        let writes = is_open && round.is_multiple_of(WRITE_STRIDE);
        is_open = true;
        if writes {
            pattern(round + me, &mut out[..WINDOW_LEN]);
            write(side, peer, key(1 - me, thread), &out[..WINDOW_LEN], block);
        }
        let len = LENS[(round + thread) % LENS.len()];
        let (sent, received) = (Op::default(), Op::default());
        pattern(round * 8 + thread * 2 + me, &mut out[..len]);
        into[..len].fill(0);
        let from = if round.is_multiple_of(3) { UNSPEC } else { peer };
        let posted = call!(
            side.ep,
            tagged.recv(
                side.ep,
                into.as_mut_ptr().cast(),
                len,
                ptr::null_mut(),
                from,
                tag,
                0,
                received.context(),
            )
        );
        assert_eq!(posted, 0, "trecv");
        loop {
            let posted = call!(
                side.ep,
                tagged.send(
                    side.ep,
                    out.as_ptr().cast(),
                    len,
                    ptr::null_mut(),
                    peer,
                    tag,
                    sent.context(),
                )
            );
            if posted == 0 {
                break;
            }
            assert_eq!(posted, -(fi::FI_EAGAIN as isize), "tsend");
            settle(side.tx, false);
        }
        until_done(side.tx, &sent, block);
        until_done(side.rx, &received, block);
        pattern(round * 8 + thread * 2 + (1 - me), &mut want[..len]);
        assert_eq!(received.len.load(Ordering::Relaxed), len);
        assert!(into[..len] == want[..len], "thread {thread}, round {round}: {len} bytes differ");
        if writes {
            pattern(round + 1 - me, &mut want[..WINDOW_LEN]);
            // SAFETY: the window lives, and is not written to again before this thread's next
            // message.
            let written = unsafe { std::slice::from_raw_parts(window_at, WINDOW_LEN) };
            assert!(written == &want[..WINDOW_LEN], "thread {thread}, round {round}: the window");
        }
    }
    assert_eq!(ops::close(mr), 0, "mr");
}

/// Beside them: a thread that changes the vector, asks for the name, posts receives and cancels them.
fn disturb(side: &Side, ended: &AtomicBool) {
    let mut byte = 0u8;
    while !ended.load(Ordering::Acquire) {
        let mut index = side.insert(&side.name());
        let gone = Op::default();
        let buf = (&raw mut byte).cast();
        let posted = call!(
            side.ep,
            tagged.recv(side.ep, buf, 1, ptr::null_mut(), UNSPEC, 99, 0, gone.context())
        );
        assert_eq!(posted, 0, "trecv");
        let fid = side.ep.cast();
        assert_eq!(call!(side.ep, ops.cancel(fid, gone.context())), 0, "cancel");
        assert_eq!(call!(side.rx, ops.signal(side.rx)), 0, "signal");
        let av = side.av;
        assert_eq!(call!(av, ops.remove(av, &raw mut index, 1, 0)), 0, "remove");
        std::thread::yield_now();
    }
}

fn exchange((home_a, a): (&Home, &Side), (home_b, b): (&Home, &Side)) {
    let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
    std::thread::scope(|scope| {
        for (me, home, side, peer) in [(0, home_a, a, to_b), (1, home_b, b, to_a)] {
            for thread in 0..THREADS {
                scope.spawn(move || work(home, side, peer, (me, thread)));
            }
        }
    });
}

/// Reads the errors that cancelled receives leave: nothing else may fail.
fn only_cancelled(cq: *mut fi::fid_cq) {
    loop {
        let mut entry: [fi::fi_cq_err_entry; 2] = ops::zeroed();
        let n = call!(cq, ops.readerr(cq, entry.as_mut_ptr(), 0));
        if n == -(fi::FI_EAGAIN as isize) {
            return;
        }
        assert_eq!((n, entry[0].err), (1, fi::FI_ECANCELED));
    }
}

/// Two endpoints of this process, at 127.0.0.1, over the link that the environment names.
#[test]
#[ignore = "run by the tests below, each link in a process of its own"]
fn on_this_node() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let (a, b) = (Side::open(&home), Side::open(&home));
    exchange((&home, &a), (&home, &b));
    a.close();
    b.close();
}

/// Two endpoints of this process, over the link that the environment names, beside a thread that calls everything else.
#[test]
#[ignore = "run by the tests below, each link in a process of its own"]
fn with_disturbance() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let (a, b) = (Side::open(&home), Side::open(&home));
    let disturbed = Side::open(&home);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&disturbed, &ended));
        exchange((&home, &a), (&home, &b));
        ended.store(true, Ordering::Release);
    });
    let mut entry = ops::zeroed::<fi::fi_cq_tagged_entry>();
    let n = call!(disturbed.rx, ops.read(disturbed.rx, (&raw mut entry).cast(), 1));
    assert_eq!(n, -(fi::FI_EAVAIL as isize), "receives were cancelled");
    loop {
        only_cancelled(disturbed.rx);
        let n = call!(disturbed.rx, ops.read(disturbed.rx, (&raw mut entry).cast(), 1));
        if n == -(fi::FI_EAGAIN as isize) {
            break;
        }
        assert_eq!(n, -(fi::FI_EAVAIL as isize));
    }
    for side in [disturbed, a, b] {
        side.close();
    }
}

/// Two endpoints of this process in namespaces of their own, joined by a wire.
#[test]
#[ignore = "run by the tests below, each link in a process of its own"]
fn across_a_wire() {
    let Some(wire) = Pair::or_skip(1500) else { return };
    let open = |node: &wiglaf_testnet::Node| {
        let ip = node.ip;
        node.run(move || {
            let home = Home::open(ip);
            let side = Side::open(&home);
            (home, side)
        })
    };
    let ((home_a, a), (home_b, b)) = (open(&wire.a), open(&wire.b));
    exchange((&home_a, &a), (&home_b, &b));
    a.close();
    b.close();
}

/// A race that ThreadSanitizer must report: a sanitizer that does not work finds none elsewhere either.
#[test]
#[ignore = "run by cargo xtask tsan, which wants it to fail"]
fn a_race_that_must_be_found() {
    let mut number = 0u64;
    let place = AtomicUsize::new((&raw mut number).expose_provenance());
    // On a busy machine the first would have ended before the second begins, and what the sanitizer keeps of a thread is
    // the next one's then. Relaxed, as anything stronger would order what is to race.
    let steps = AtomicUsize::new(0);
    let both_are_at = |step: usize| {
        steps.fetch_add(1, Ordering::Relaxed);
        while steps.load(Ordering::Relaxed) < 2 * step {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                both_are_at(1);
                let place = ptr::with_exposed_provenance_mut::<u64>(place.load(Ordering::Relaxed));
                for _ in 0..1000 {
                    // SAFETY: none; `number` lives, but the threads do not take turns.
                    unsafe { place.write_volatile(place.read_volatile() + 1) };
                }
                both_are_at(2);
            });
        }
    });
    assert!(number > 0);
}

#[test]
fn over_udp() {
    in_child("with_disturbance", "udp", &[]);
}

#[test]
fn over_shm() {
    in_child("on_this_node", "shm", &[]);
}

#[test]
fn over_packet() {
    in_child("across_a_wire", "packet", &[]);
}

#[test]
fn over_xdp() {
    in_child("across_a_wire", "xdp", &[]);
}

/// Reads one completion of a side's receives, however long it takes: what was read, and its tag.
fn read_one(side: &Side, returned: &AtomicBool) -> (isize, u64) {
    let mut entry = ops::zeroed::<fi::fi_cq_tagged_entry>();
    let buf = (&raw mut entry).cast();
    let n = call!(side.rx, ops.sread(side.rx, buf, 1, ptr::null(), -1));
    returned.store(true, Ordering::Release);
    (n, entry.tag)
}

/// While a thread is in a blocking read, another sends 200 messages over the same endpoint; then one
/// comes for the reader. (That it holds no lock meanwhile is tested where the lock is, in wait.rs.)
#[test]
fn a_blocked_reader_holds_up_nobody() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let (a, b) = (Side::open(&home), Side::open(&home));
    let (to_b, to_a) = (a.insert(&b.name()), b.insert(&a.name()));
    let returned = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_one(&a, &returned));
        let (out, mut into) = (vec![3u8; 50_000], vec![0u8; 50_000]);
        for _ in 0..200 {
            let (sent, received) = (Op::default(), Op::default());
            let (buf, len) = (into.as_mut_ptr().cast(), into.len());
            let posted = call!(
                b.ep,
                tagged.recv(b.ep, buf, len, ptr::null_mut(), to_a, 1, 0, received.context())
            );
            assert_eq!(posted, 0);
            let (buf, len) = (out.as_ptr().cast(), out.len());
            let posted =
                call!(a.ep, tagged.send(a.ep, buf, len, ptr::null_mut(), to_b, 1, sent.context()));
            assert_eq!(posted, 0);
            while !sent.done.load(Ordering::Acquire) || !received.done.load(Ordering::Acquire) {
                settle(a.tx, false);
                settle(b.rx, false);
            }
            assert!(!returned.load(Ordering::Acquire), "a reader returned without a message");
        }
        let (last, mut byte) = (Op::default(), [9u8]);
        let buf = byte.as_mut_ptr().cast();
        let posted =
            call!(a.ep, tagged.recv(a.ep, buf, 1, ptr::null_mut(), to_b, 2, 0, last.context()));
        assert_eq!(posted, 0);
        let posted = call!(b.ep, tagged.inject(b.ep, out.as_ptr().cast(), 1, to_a, 2));
        assert_eq!(posted, 0);
        while !returned.load(Ordering::Acquire) {
            settle(b.rx, false);
        }
        assert_eq!(reader.join().expect("it does not panic"), (1, 2));
        assert_eq!(byte, [3]);
    });
    a.close();
    b.close();
}
