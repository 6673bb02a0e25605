//! A domain that one thread calls into (FI_THREAD_DOMAIN), and event queues, which are no part of it: any
//! thread may read them.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use ops::{Home, Side, UNSPEC, call, fi};

const AGAIN: isize = -(fi::FI_EAGAIN as isize);

struct Member {
    side: Side,
    eq: *mut fi::fid_eq,
    set: *mut fi::fid_av_set,
    mc: *mut fi::fid_mc,
}

// SAFETY: the tests call into the domain from one thread; event queues may be read by any.
unsafe impl Sync for Member {}

fn open_home() -> Home {
    let home = Home::open_with(Ipv4Addr::LOCALHOST, |domain| {
        domain.threading = fi::FI_THREAD_DOMAIN;
    });
    // SAFETY: the provider's own answer, and nobody else has it.
    unsafe { (*home.info).caps |= fi::FI_COLLECTIVE };
    home
}

impl Member {
    fn open(home: &Home) -> Self {
        let (cq, eq) = (home.cq(fi::FI_CQ_FORMAT_TAGGED), home.eq());
        let side = Side { ep: home.ep(), tx: cq, rx: cq, av: home.av() };
        assert_eq!(ops::bind(side.ep, side.av, 0), 0);
        assert_eq!(ops::bind(side.ep, eq, 0), 0);
        assert_eq!(ops::bind(side.ep, cq, fi::FI_SEND | fi::FI_RECV), 0);
        assert_eq!(ops::enable(side.ep), 0);
        Self { side, eq, set: ptr::null_mut(), mc: ptr::null_mut() }
    }

    /// Begins to join the group of all.
    fn join(&mut self, names: &[[u8; 16]]) {
        names.iter().for_each(|name| _ = self.side.insert(name));
        let mut attr = ops::zeroed::<fi::fi_av_set_attr>();
        (attr.count, attr.end_addr, attr.stride) = (names.len(), names.len() as u64 - 1, 1);
        let (av, ep, none) = (self.side.av, self.side.ep, ptr::null_mut());
        assert_eq!(call!(av, ops.av_set(av, &raw mut attr, &raw mut self.set, none)), 0);
        let all = fi::fi_collective_addr { set: self.set, coll_addr: UNSPEC };
        let (at, flags) = ((&raw const all).cast(), fi::FI_COLLECTIVE);
        assert_eq!(call!(ep, cm.join(ep, at, flags, &raw mut self.mc, none)), 0);
    }

    /// Reads the event queue: whether the group has been joined.
    fn has_joined(&self, wait: bool) -> bool {
        let (eq, mut kind, mut event) = (self.eq, 0, ops::zeroed::<fi::fi_eq_entry>());
        let (at, len) = (ptr::from_mut(&mut event).cast(), size_of::<fi::fi_eq_entry>());
        let read = if wait {
            call!(eq, ops.sread(eq, &raw mut kind, at, len, -1, 0))
        } else {
            call!(eq, ops.read(eq, &raw mut kind, at, len, 0))
        };
        assert!(read == AGAIN || read == len as isize, "event queue: {read}");
        read != AGAIN
    }

    fn close(self) {
        assert_eq!((ops::close(self.mc), ops::close(self.set)), (0, 0));
        assert_eq!((ops::close(self.side.ep), ops::close(self.eq)), (0, 0));
        assert_eq!((ops::close(self.side.rx), ops::close(self.side.av)), (0, 0));
    }
}

/// Before the second member joins, the first is looked after by two threads for a while.
#[test]
fn an_event_queue_is_read_beside_the_domain() {
    const READS: usize = 5000;
    let home = open_home();
    let (mut first, mut second) = (Member::open(&home), Member::open(&home));
    let names = [first.side.name(), second.side.name()];
    first.join(&names);
    let joined = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = &first;
        let reader = scope.spawn(|| {
            while !first.has_joined(false) {}
            joined.store(true, Ordering::Release);
        });
        let look = |side: &Side| {
            let (cq, mut entry) = (side.rx, ops::zeroed::<fi::fi_cq_tagged_entry>());
            let read = call!(cq, ops.read(cq, ptr::from_mut(&mut entry).cast(), 1));
            assert_eq!(read, AGAIN);
        };
        (0..READS).for_each(|_| look(&first.side));
        second.join(&names);
        while !(joined.load(Ordering::Acquire) || reader.is_finished()) {
            look(&first.side);
            look(&second.side);
        }
        while !second.has_joined(false) {
            look(&second.side);
        }
    });
    first.close();
    second.close();
}

/// Who waits for a group may call nothing else.
#[test]
fn an_event_queue_is_all_that_is_read() {
    let home = open_home();
    let (mut first, mut second) = (Member::open(&home), Member::open(&home));
    let names = [first.side.name(), second.side.name()];
    first.join(&names);
    second.join(&names);
    assert!(first.has_joined(true) && second.has_joined(true));
    first.close();
    second.close();
}
