//! An endpoint that is closed, and another that is opened where it was.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ops::{Home, Side, UNSPEC, call, fi, in_child};

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the port and the epoch lie in an address.
const PORT: std::ops::Range<usize> = 2..4;
const EPOCH: std::ops::Range<usize> = 8..16;

/// From now on endpoints are opened at that port.
fn stay_at(home: &Home, port: [u8; 2]) {
    // SAFETY: the provider's own answer, whose source is an address of 16 bytes.
    unsafe {
        let source = (*home.info).src_addr.cast::<[u8; 16]>();
        (&mut *source)[PORT].copy_from_slice(&port);
    }
}

fn port_of(name: &[u8; 16]) -> [u8; 2] {
    name[PORT].try_into().expect("two bytes")
}

/// What a queue of receives shows next, the byte that came and where it came from, while both sides move.
fn next(cq: *mut fi::fid_cq, sides: [&Side; 2]) -> fi::fi_addr_t {
    let began = Instant::now();
    let (mut entry, mut source) = (ops::zeroed::<fi::fi_cq_tagged_entry>(), 0);
    let at = ptr::from_mut(&mut entry).cast();
    loop {
        sides.iter().for_each(|side| side.progress());
        match call!(cq, ops.readfrom(cq, at, 1, &raw mut source)) {
            1 => return source,
            code => assert_eq!(code, -(fi::FI_EAGAIN as isize), "nothing fails"),
        }
        assert!(began.elapsed() < PATIENCE, "nothing arrives");
    }
}

/// Waits until the receive of one side has ended because its peer has.
fn until_gone(side: &Side) {
    let began = Instant::now();
    let mut entry = ops::zeroed::<fi::fi_cq_tagged_entry>();
    let at = ptr::from_mut(&mut entry).cast();
    while call!(side.rx, ops.read(side.rx, at, 1)) != -(fi::FI_EAVAIL as isize) {
        assert!(began.elapsed() < PATIENCE, "nobody is missed");
    }
    // Entries of this interface version end with a source.
    let mut error: [fi::fi_cq_err_entry; 2] = ops::zeroed();
    assert_eq!(call!(side.rx, ops.readerr(side.rx, error.as_mut_ptr(), 0)), 1);
    assert_eq!(error[0].err, fi::FI_ECONNRESET);
}

/// Sends `byte` from one to the other, who receives from `source` only; answers the source that it
/// is told.
fn exchange(
    (from, to): (&Side, fi::fi_addr_t),
    (into, source): (&Side, fi::fi_addr_t),
    byte: u8,
) -> fi::fi_addr_t {
    let (none, context) = (ptr::null_mut(), ptr::null_mut());
    let (out, mut came) = ([byte], [0u8]);
    let (ep, at) = (into.ep, came.as_mut_ptr().cast());
    assert_eq!(call!(ep, tagged.recv(ep, at, 1, none, source, 1, 0, context)), 0);
    let (ep, at) = (from.ep, out.as_ptr().cast());
    assert_eq!(call!(ep, tagged.inject(ep, at, 1, to, 1)), 0);
    let told = next(into.rx, [from, into]);
    assert_eq!(came, out);
    told
}

#[test]
#[ignore = "run by the test below"]
fn next_at_the_same_place() {
    let (home, client_home) = (Home::open(Ipv4Addr::LOCALHOST), Home::open(Ipv4Addr::LOCALHOST));
    let (server, client) = (Side::open(&home), Side::open(&client_home));
    let mut place = server.name();
    let port = port_of(&place);
    place[EPOCH].fill(0);
    let to_server = client.insert(&place);
    let to_client = server.insert(&client.name());
    let told = exchange((&client, to_server), (&server, UNSPEC), 1);
    assert_eq!(told, to_client);
    assert_eq!(exchange((&server, to_client), (&client, to_server), 2), to_server);
    // What it leaves is received later.
    let (ep, left) = (server.ep, [9u8]);
    assert_eq!(call!(ep, tagged.inject(ep, left.as_ptr().cast(), 1, to_client, 2)), 0);
    // Who receives from the first one learns that it has ended.
    let (none, context) = (ptr::null_mut(), ptr::null_mut());
    let (ep, mut came) = (client.ep, [0u8]);
    let at = came.as_mut_ptr().cast();
    assert_eq!(call!(ep, tagged.recv(ep, at, 1, none, to_server, 1, 0, context)), 0);
    server.close();
    drop(home);
    until_gone(&client);

    let home = Home::open(Ipv4Addr::LOCALHOST);
    stay_at(&home, port);
    let server = Side::open(&home);
    assert_eq!(port_of(&server.name()), port);
    let told = exchange((&client, to_server), (&server, UNSPEC), 3);
    assert_eq!(told, UNSPEC, "nobody has inserted it here");
    let to_client = server.insert(&client.name());
    assert_eq!(exchange((&server, to_client), (&client, to_server), 4), to_server);
    assert_eq!(exchange((&client, to_server), (&server, to_client), 5), to_client);
    let ep = client.ep;
    assert_eq!(call!(ep, tagged.recv(ep, at, 1, none, to_server, 2, 0, context)), 0);
    assert_eq!((next(client.rx, [&client, &server]), came), (to_server, left));
    server.close();
    client.close();
}

#[test]
fn an_address_without_epoch_names_who_comes_after() {
    for link in ["udp", "auto"] {
        in_child("next_at_the_same_place", link, &[]);
    }
}

/// Reads a queue, and sleeps on it, until it is signalled.
fn read_on(queue: &Side, read: &AtomicUsize) {
    let (cq, mut entry) = (queue.rx, ops::zeroed::<fi::fi_cq_tagged_entry>());
    let at = ptr::from_mut(&mut entry).cast();
    while call!(cq, ops.sread(cq, at, 1, ptr::null(), -1)) == 1 {
        read.fetch_add(1, Ordering::AcqRel);
    }
}

/// Ends the reader of a queue, also when the test has failed.
struct Reading(*mut fi::fid_cq);

impl Drop for Reading {
    fn drop(&mut self) {
        call!(self.0, ops.signal(self.0));
    }
}

#[test]
#[ignore = "run by the test below"]
fn beside_a_reader() {
    const ROUNDS: usize = 20;
    let (home, other_home) = (Home::open(Ipv4Addr::LOCALHOST), Home::open(Ipv4Addr::LOCALHOST));
    let other = Side::open(&other_home);
    let cq = home.cq(fi::FI_CQ_FORMAT_TAGGED);
    let mut side = Side { ep: home.ep(), tx: cq, rx: cq, av: home.av() };
    let queue = Side { ep: ptr::null_mut(), ..side };
    stay_at(&home, port_of(&side.name()));
    let read = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| read_on(&queue, &read));
        let _reading = Reading(cq);
        for round in 1..=ROUNDS {
            assert_eq!(ops::bind(side.ep, side.av, 0), 0);
            assert_eq!(ops::bind(side.ep, cq, fi::FI_SEND | fi::FI_RECV), 0);
            assert_eq!(ops::enable(side.ep), 0);
            let (ep, mut came) = (side.ep, [0u8]);
            let (at, none) = (came.as_mut_ptr().cast(), ptr::null_mut());
            assert_eq!(call!(ep, tagged.recv(ep, at, 1, none, UNSPEC, 1, 0, ptr::null_mut())), 0);
            let (to, ep) = (other.insert(&side.name()), other.ep);
            assert_eq!(call!(ep, tagged.inject(ep, [7u8].as_ptr().cast(), 1, to, 1)), 0);
            while read.load(Ordering::Acquire) < round {
                other.progress();
            }
            // The reader looks again, and falls asleep.
            assert_eq!(ops::close(side.ep), 0);
            side.ep = home.ep();
        }
    });
    assert_eq!(ops::close(side.ep), 0);
    assert_eq!((ops::close(cq), ops::close(side.av)), (0, 0));
    other.close();
}

#[test]
fn a_port_is_free_once_its_endpoint_is_closed_whoever_sleeps() {
    for link in ["udp", "auto"] {
        in_child("beside_a_reader", link, &[]);
    }
}
