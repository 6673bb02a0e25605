//! Limits of a server's process: which it raises, and what they say to its client.

mod common;

use std::sync::{Mutex, PoisonError};

use common::{Place, servers};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// Servers are told apart by who started them, and inherit limits, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
const RW: i32 = libc::O_RDWR | libc::O_CREAT;

#[test]
fn a_write_behind_that_is_cut_short_says_why() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let [server] = servers()[..] else { panic!("one server is expected: {:?}", servers()) };
    let limit = Rlimit { current: Some(500_000), maximum: Some(500_000) };
    prlimit(Pid::from_raw(server), Resource::Fsize, limit).unwrap();
    let file = place.node.open("a", RW, 0o644).unwrap();
    file.set_write_behind(4 << 20).unwrap();
    assert_eq!(file.write(&[1; 700_000]).unwrap(), 700_000);
    assert_eq!(file.sync(false).unwrap_err().errno(), libc::EFBIG);
    // What there was room for is there.
    assert!(std::fs::read(place.path("a")).unwrap() == [1; 500_000]);
}

#[test]
fn a_server_opens_what_it_may_at_most() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = getrlimit(Resource::Nofile);
    if before.maximum.is_some_and(|most| most < 1000) {
        println!("skipped: not many files may be open here: {before:?}");
        return;
    }
    common::base();
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..before }).unwrap();
    let place = Place::new();
    setrlimit(Resource::Nofile, before).unwrap();
    place.node.open("a", RW, 0o644).unwrap().close().unwrap();
    let open: Vec<_> = (0..500).map(|_| place.node.open("a", libc::O_RDONLY, 0)).collect();
    let failed = open.iter().find_map(|outcome| outcome.as_ref().err());
    assert_eq!(failed, None);
}
