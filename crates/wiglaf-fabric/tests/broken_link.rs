//! A link that fails outright: what the application is told, and where.

#[path = "common/ops.rs"]
mod ops;

use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use ops::{Home, Side, UNSPEC, call, fi};
use wiglaf_testnet::{INTERFACE, Node, Pair};

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(node: &Node, events: bool) -> (Home, Side, *mut fi::fid_eq) {
    let ip = node.ip;
    // Handles do not go from thread to thread by themselves.
    let home = node.run(move || Home::open(ip));
    let (tx, rx) = (home.cq(fi::FI_CQ_FORMAT_TAGGED), home.cq(fi::FI_CQ_FORMAT_TAGGED));
    let ep = node.run(|| home.ep().expose_provenance());
    let side = Side { ep: ptr::with_exposed_provenance_mut(ep), tx, rx, av: home.av() };
    let eq = home.eq();
    if events {
        assert_eq!(ops::bind(side.ep, eq, 0), 0);
    }
    assert_eq!(ops::bind(side.ep, side.av, 0), 0);
    assert_eq!(ops::bind(side.ep, side.tx, fi::FI_SEND), 0);
    assert_eq!(ops::bind(side.ep, side.rx, fi::FI_RECV), 0);
    assert_eq!(ops::enable(side.ep), 0);
    (home, side, eq)
}

/// What a queue says next, while both sides move.
fn next(cq: *mut fi::fid_cq, sides: &[&Side]) -> (isize, fi::fi_cq_err_entry) {
    let began = Instant::now();
    let mut entry: [fi::fi_cq_tagged_entry; 1] = ops::zeroed();
    loop {
        assert!(began.elapsed() < PATIENCE, "nothing completes");
        sides.iter().for_each(|side| side.progress());
        let mut error: [fi::fi_cq_err_entry; 2] = ops::zeroed();
        let n = call!(cq, ops.read(cq, entry.as_mut_ptr().cast(), 1));
        if n == -(fi::FI_EAVAIL as isize) {
            assert_eq!(call!(cq, ops.readerr(cq, error.as_mut_ptr(), 0)), 1);
        }
        if n != -(fi::FI_EAGAIN as isize) {
            let [error, _] = error;
            return (n, error);
        }
    }
}

#[test]
#[ignore = "run by the test below, which reads what it logs"]
fn pulled_out() {
    let Some(wire) = Pair::or_skip(1500) else { return };
    let ((_home_a, a, eq), (_home_b, b, unused)) = (open(&wire.a, true), open(&wire.b, false));
    let to_b = a.insert(&b.name());
    let (out, mut into) = ([7u8; 100], [0u8; 100]);
    let (buf, none, context) = (out.as_ptr().cast(), ptr::null_mut(), ptr::null_mut());
    let at = into.as_mut_ptr().cast();
    assert_eq!(call!(b.ep, tagged.recv(b.ep, at, 100, none, UNSPEC, 1, 0, context)), 0);
    assert_eq!(call!(a.ep, tagged.send(a.ep, buf, 100, none, to_b, 1, context)), 0);
    assert_eq!(next(b.rx, &[&a, &b]).0, 1);
    assert_eq!(next(a.tx, &[&a, &b]).0, 1);
    // From anybody, a receive could still be met over shared memory.
    assert_eq!(call!(a.ep, tagged.recv(a.ep, at, 100, none, to_b, 1, 0, context)), 0);
    let (mut kind, mut event) = (0, ops::zeroed::<fi::fi_eq_err_entry>());
    let again = -(fi::FI_EAGAIN as isize);
    assert_eq!(call!(eq, ops.read(eq, &raw mut kind, (&raw mut event).cast(), 0, 0)), again);

    let big = vec![1u8; 200_000];
    let buf = big.as_ptr().cast();
    assert_eq!(call!(a.ep, tagged.send(a.ep, buf, big.len(), none, to_b, 1, context)), 0);
    wire.a.ip(&["link", "delete", INTERFACE]).expect("it was there");
    for cq in [a.tx, a.rx] {
        let (n, error) = next(cq, &[&a]);
        assert_eq!((n, error.err), (-(fi::FI_EAVAIL as isize), fi::FI_ECONNRESET));
    }
    let refused = call!(a.ep, tagged.send(a.ep, buf, 1, none, to_b, 1, context));
    assert_eq!(refused, -(fi::FI_ECONNRESET as isize));
    let waiting = call!(eq, ops.sread(eq, &raw mut kind, (&raw mut event).cast(), 0, -1, 0));
    assert_eq!(waiting, -(fi::FI_EAVAIL as isize));
    let len = size_of::<fi::fi_eq_err_entry>() as isize;
    assert_eq!(call!(eq, ops.readerr(eq, &raw mut event, 0)), len);
    assert_eq!((event.fid, event.err), (a.ep.cast(), fi::FI_EIO));
    assert!([libc::ENXIO, libc::ENODEV].contains(&event.prov_errno), "{}", event.prov_errno);
    let text = call!(eq, ops.strerror(eq, event.prov_errno, ptr::null(), ptr::null_mut(), 0));
    assert!(!text.is_null());
    assert_eq!(call!(eq, ops.readerr(eq, &raw mut event, 0)), again);
    a.close();
    b.close();
    assert_eq!((ops::close(eq), ops::close(unused)), (0, 0));
}

/// A wire is pulled out, together with its plug.
#[test]
fn a_link_that_fails_is_an_event_errors_and_a_line_in_the_log() {
    for link in ["packet", "xdp-generic"] {
        let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
            .args(["--exact", "pulled_out", "--ignored", "--nocapture"])
            .env("WIGLAF_LINK", link)
            .output()
            .expect("run this test");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        match log.lines().find(|line| line.starts_with("skipped")) {
            Some(reason) => eprintln!("{reason}"),
            None => assert!(log.contains(&format!("the {link} link has failed (")), "{log}"),
        }
    }
}

#[test]
#[ignore = "run by the test below, which reads what it says"]
fn without_power() {
    let Some(wire) = Pair::or_skip(1500) else { return };
    // Machines are asked by the thread that waits: it must be in the right place.
    wire.a.run(|| {
        let ((_home_a, a, eq), (_home_b, b, unused)) = (open(&wire.a, false), open(&wire.b, false));
        let to_b = a.insert(&b.name());
        let (out, mut into) = ([7u8; 100], [0u8; 100]);
        let (buf, none, context) = (out.as_ptr().cast(), ptr::null_mut(), ptr::null_mut());
        let at = into.as_mut_ptr().cast();
        assert_eq!(call!(b.ep, tagged.recv(b.ep, at, 100, none, UNSPEC, 1, 0, context)), 0);
        assert_eq!(call!(a.ep, tagged.send(a.ep, buf, 100, none, to_b, 1, context)), 0);
        assert_eq!(next(b.rx, &[&a, &b]).0, 1);
        assert_eq!(next(a.tx, &[&a, &b]).0, 1);
        // Time for a question to its machine, and the answer.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            a.progress();
            b.progress();
        }
        wire.b.ip(&["link", "set", INTERFACE, "down"]).expect("its cable is out");
        assert_eq!(call!(a.ep, tagged.recv(a.ep, at, 100, none, to_b, 1, 0, context)), 0);
        let (n, error) = next(a.rx, &[&a]);
        assert_eq!((n, error.err), (-(fi::FI_EAVAIL as isize), fi::FI_ECONNRESET));
        let text =
            call!(a.rx, ops.strerror(a.rx, error.prov_errno, ptr::null(), ptr::null_mut(), 0));
        // SAFETY: the provider gives a text that lives as long as the queue.
        let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_str().expect("plain text");
        assert!(text.contains("10.77.0.2") && text.contains("does not answer"), "{text}");
        a.close();
        b.close();
        assert_eq!((ops::close(eq), ops::close(unused)), (0, 0));
    });
}

#[test]
fn a_machine_without_power_is_an_error_that_names_it() {
    for link in ["udp", "packet"] {
        let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
            .args(["--exact", "without_power", "--ignored", "--nocapture"])
            .env("WIGLAF_LINK", link)
            .env("WIGLAF_HOST_LIMIT", "2s")
            .output()
            .expect("run this test");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        if let Some(reason) = log.lines().find(|line| line.starts_with("skipped")) {
            eprintln!("{reason}");
            continue;
        }
        let lost: Vec<&str> = log.lines().filter(|line| line.contains(" is lost: ")).collect();
        let [line] = lost[..] else { panic!("{log}") };
        for part in ["wiglaf[", "10.77.0.2", "its machine does not answer: power or cable"] {
            assert!(line.contains(part), "{line}");
        }
    }
}
