//! A server that says that it moved more than it was asked to is believed by no call.

use super::*;
use crate::error::Reason;
use crate::testing::Lying;

#[test]
fn no_call_believes_a_count_beyond_what_it_asked_for() {
    let lying = Lying::new();
    let file = |appends| File::new(lying.node.clone(), Handle::Remote { handle: 0, appends });
    let (plain, appended) = (file(false), file(true));
    let mut outcomes = Vec::new();
    let mut note = |what, len, outcome: Result<usize>| {
        let reason = outcome.map_err(|error| (error.errno(), error.reason()));
        outcomes.push((what, len, reason));
    };
    // One request that carries its bytes, one that has them follow, and several.
    for len in [100, CHUNK_LEN, 3 * CHUNK_LEN] {
        let mut bytes = vec![0; len];
        note("read", len, plain.read_at(&mut bytes, 0));
        note("write", len, plain.write_at(&bytes, 0));
        note("append", len, appended.write_at(&bytes, 0));
        note("a read that goes on", len, plain.start_read(len, 0).unwrap().wait().map(|b| b.len()));
        // Of a write that is behind, who asks hears.
        let behind = file(false);
        behind.set_write_behind(1 << 20).unwrap();
        assert_eq!(behind.write(&bytes).unwrap(), len);
        note("write behind", len, behind.sync(false).map(|()| len));
    }
    note("read", 0, plain.read_at(&mut [], 0));
    let ahead = file(false);
    ahead.set_read_ahead(1 << 20).unwrap();
    // As after a read that was whole: the next one in order is read ahead.
    ahead.at().buffering.expect(0);
    note("read ahead", 100, ahead.read(&mut [0; 100]));
    outcomes.retain(|(.., reason)| *reason != Err((libc::EPROTO, Reason::BadAnswer)));
    assert!(outcomes.is_empty(), "{outcomes:?}");
}
