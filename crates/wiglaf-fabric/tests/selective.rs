//! Selective completion beside counters: operations that are counted, and shown only when they fail.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::ptr;
use std::time::{Duration, Instant};

use ops::{Home, Side, UNSPEC, call, fi};

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// An endpoint that shows only what asks for it, with a counter of both directions.
fn open(home: &Home) -> (Side, *mut fi::fid_cntr) {
    let queue = || home.cq(fi::FI_CQ_FORMAT_TAGGED);
    let side = Side { ep: home.ep(), tx: queue(), rx: queue(), av: home.av() };
    let counter = home.cntr();
    assert_eq!(ops::bind(side.ep, side.av, 0), 0);
    assert_eq!(ops::bind(side.ep, side.tx, fi::FI_SEND | fi::FI_SELECTIVE_COMPLETION), 0);
    assert_eq!(ops::bind(side.ep, side.rx, fi::FI_RECV | fi::FI_SELECTIVE_COMPLETION), 0);
    assert_eq!(ops::bind(side.ep, counter, fi::FI_SEND | fi::FI_RECV), 0);
    assert_eq!(ops::enable(side.ep), 0);
    (side, counter)
}

/// Posts a receive that is not shown.
fn recv(side: &Side, bytes: &mut [u8], context: *mut libc::c_void) {
    let (ep, buf) = (side.ep, bytes.as_mut_ptr().cast());
    let posted =
        call!(ep, tagged.recv(ep, buf, bytes.len(), ptr::null_mut(), UNSPEC, 1, 0, context));
    assert_eq!(posted, 0);
}

/// The error that the queue of receives shows next.
fn next_error(side: &Side, other: &Side) -> (i32, *mut libc::c_void) {
    error_of(side.rx, &|| other.progress())
}

/// The error that a queue shows next.
fn error_of(cq: *mut fi::fid_cq, go_on: &dyn Fn()) -> (i32, *mut libc::c_void) {
    let began = Instant::now();
    let mut entry = ops::zeroed::<fi::fi_cq_tagged_entry>();
    let at = ptr::from_mut(&mut entry).cast();
    while call!(cq, ops.read(cq, at, 1)) != -(fi::FI_EAVAIL as isize) {
        go_on();
        assert!(began.elapsed() < PATIENCE, "no error is shown");
    }
    // Entries of this interface version end with a source.
    let mut error: [fi::fi_cq_err_entry; 2] = ops::zeroed();
    assert_eq!(call!(cq, ops.readerr(cq, error.as_mut_ptr(), 0)), 1);
    (error[0].err, error[0].op_context)
}

#[test]
fn a_receive_is_cancelled_whatever_is_sent_under_its_context() {
    const SENDS: usize = 16;
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let ((a, count_a), (b, count_b)) = (open(&home), open(&home));
    let to_b = a.insert(&b.name());
    let mut bytes = vec![7u8; 1 << 20];
    for context in [ptr::null_mut(), ptr::from_mut(&mut bytes).cast()] {
        for _ in 0..SENDS {
            let (ep, none) = (a.ep, ptr::null_mut());
            let buf = bytes.as_ptr().cast();
            let posted = call!(ep, tagged.send(ep, buf, bytes.len(), none, to_b, 1, context));
            assert_eq!(posted, 0);
        }
        let mut into = [0; 8];
        recv(&a, &mut into, context);
        let fid = a.ep.cast::<fi::fid>();
        assert_eq!(call!(a.ep, ops.cancel(fid, context)), 0);
        assert_eq!(next_error(&a, &b), (fi::FI_ECANCELED, context));
        let none_left = -(fi::FI_ENOENT as isize);
        assert_eq!(call!(a.ep, ops.cancel(fid, context)), none_left, "it was one");
    }
    b.close();
    a.close();
    assert_eq!((ops::close(count_a), ops::close(count_b)), (0, 0));
}

#[test]
fn a_truncated_receive_is_shown_also_without_a_context() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let ((a, count_a), (b, count_b)) = (open(&home), open(&home));
    let (to_b, ep) = (a.insert(&b.name()), a.ep);
    let mut into = [0; 1];
    recv(&b, &mut into, ptr::null_mut());
    assert_eq!(call!(ep, tagged.inject(ep, [7u8; 2].as_ptr().cast(), 2, to_b, 1)), 0);
    assert_eq!(next_error(&b, &a), (fi::FI_ETRUNC, ptr::null_mut()));
    b.close();
    a.close();
    assert_eq!((ops::close(count_a), ops::close(count_b)), (0, 0));
}

#[test]
fn a_send_that_fails_is_shown_also_without_a_context() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let ((a, count_a), (b, count_b)) = (open(&home), open(&home));
    let (to_b, ep, none) = (a.insert(&b.name()), a.ep, ptr::null_mut());
    let bytes = vec![7u8; 1 << 20];
    let posted =
        call!(ep, tagged.send(ep, bytes.as_ptr().cast(), bytes.len(), none, to_b, 1, none));
    assert_eq!(posted, 0);
    // It is announced; nobody asks for it.
    b.close();
    let (error, context) = error_of(a.tx, &|| {});
    assert!(error != 0 && context.is_null(), "{error}");
    a.close();
    assert_eq!((ops::close(count_a), ops::close(count_b)), (0, 0));
}
