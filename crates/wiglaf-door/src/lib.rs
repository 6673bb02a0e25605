//! The door of a server that many users connect to: no user takes another's place.
//!
//! A user may have thousands of subordinate uids, for containers (subuid(5)): those of one range count
//! as one.
//!
//! Each connection has a thread, and each user so many. Who accepts never closes a connection:
//! descriptors may lie in it unread, and to close the last of a TCP socket takes as long as its
//! owner likes (SO_LINGER). Threads of that user's share close it.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Threads that close connections which were refused, and of one user.
const CLOSERS_MAX: usize = 32;
const CLOSERS_OF_USER_MAX: usize = 2;
const CLOSER_STACK: usize = 64 << 10;

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Served at once, root's not counted: who mends a server must get in.
    pub all: usize,
    /// Of one user.
    pub of_user: usize,
    /// Refused and not closed yet, of one user.
    pub closing_of_user: usize,
    /// Refused and not closed yet, of all users.
    pub closing: usize,
    /// Stack of a thread that serves, in bytes.
    pub stack: usize,
}

/// Who is inside, and who is on the way out.
#[derive(Debug)]
pub struct Door {
    limits: Limits,
    subordinates: Vec<RangeInclusive<u32>>,
    users: Mutex<HashMap<u32, User>>,
}

#[derive(Debug, Default)]
struct User {
    served: usize,
    closers: usize,
    closing: Vec<UnixStream>,
}

/// A place inside, given back when it is dropped, also by a panic.
struct Place {
    door: Arc<Door>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.change(self.uid, |user| user.served -= 1);
    }
}

impl Door {
    /// A door with nobody behind it. Subordinate uids are those of /etc/subuid now.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        let text = std::fs::read_to_string("/etc/subuid").unwrap_or_default();
        Self::with_subordinates(limits, &text)
    }

    fn with_subordinates(limits: Limits, text: &str) -> Arc<Self> {
        let subordinates = text.lines().filter_map(subordinates).collect();
        Arc::new(Self { limits, subordinates, users: Mutex::default() })
    }

    /// Whom a uid counts as: that uid, or the first of a range of subordinate ones.
    #[must_use]
    pub fn person(&self, uid: u32) -> u32 {
        let range = self.subordinates.iter().find(|range| range.contains(&uid));
        range.map_or(uid, |range| *range.start())
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a user, and forgets who has nothing here.
    fn change<T>(&self, uid: u32, change: impl FnOnce(&mut User) -> T) -> T {
        let mut users = self.users();
        let user = users.entry(uid).or_default();
        let changed = change(user);
        if user.served == 0 && user.closers == 0 && user.closing.is_empty() {
            users.remove(&uid);
        }
        changed
    }

    /// Serves a connection in a thread of its own, and closes it there.
    ///
    /// # Errors
    /// The connection, when there are too many, or no thread is to be had.
    pub fn admit(
        self: &Arc<Self>,
        uid: u32,
        stream: UnixStream,
        serve: impl FnOnce(UnixStream) + Send + 'static,
    ) -> Result<(), UnixStream> {
        let Some(place) = self.take_place(self.person(uid)) else { return Err(stream) };
        // Handed over, so that it comes back when there is no thread.
        let hand = Arc::new(Mutex::new(Some(stream)));
        let take = |hand: &Mutex<Option<UnixStream>>| {
            hand.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let theirs = Arc::clone(&hand);
        let work = move || {
            let _place = place;
            if let Some(stream) = take(&theirs) {
                serve(stream);
            }
        };
        match Builder::new().stack_size(self.limits.stack).spawn(work) {
            Ok(_) => Ok(()),
            Err(_) => take(&hand).map_or(Ok(()), Err),
        }
    }

    fn take_place(self: &Arc<Self>, uid: u32) -> Option<Place> {
        let mut users = self.users();
        let all: usize =
            users.iter().filter(|(uid, _)| **uid != 0).map(|(_, user)| user.served).sum();
        let user = users.entry(uid).or_default();
        if user.served >= self.limits.of_user || (uid != 0 && all >= self.limits.all) {
            return None;
        }
        user.served += 1;
        Some(Place { door: Arc::clone(self), uid })
    }

    /// Closes a connection that was not served. Waits for it only when that user, or all, have
    /// left too many to be closed already.
    pub fn close(self: &Arc<Self>, uid: u32, stream: UnixStream) {
        let uid = self.person(uid);
        let mut users = self.users();
        let closing: usize = users.values().map(|user| user.closing.len()).sum();
        let closers: usize = users.values().map(|user| user.closers).sum();
        let user = users.entry(uid).or_default();
        if user.closing.len() >= self.limits.closing_of_user || closing >= self.limits.closing {
            drop(users);
            return drop(stream);
        }
        user.closing.push(stream);
        if user.closers >= CLOSERS_OF_USER_MAX || closers >= CLOSERS_MAX {
            return;
        }
        user.closers += 1;
        drop(users);
        let door = Arc::clone(self);
        let work = move || {
            // One statement each: the lock is not held while the connection is closed.
            while let Some(stream) = door.next_to_close(uid) {
                drop(stream);
            }
        };
        if Builder::new().stack_size(CLOSER_STACK).spawn(work).is_err() {
            self.change(uid, |user| user.closers -= 1);
        }
    }

    /// What a closer closes next; with nothing left it is none any more.
    fn next_to_close(&self, uid: u32) -> Option<UnixStream> {
        self.change(uid, |user| {
            let next = user.closing.pop();
            user.closers -= usize::from(next.is_none());
            next
        })
    }
}

/// The uids of a line of subuid(5): `owner:first:count`. Root is nobody's subordinate.
fn subordinates(line: &str) -> Option<RangeInclusive<u32>> {
    let mut fields = line.trim().split(':').skip(1).map(|field| field.parse::<u32>().ok());
    let (first, count) = (fields.next()??, fields.next()??);
    let last = first.checked_add(count.checked_sub(1)?)?;
    (first > 0).then_some(first..=last)
}

/// What fuzzers call: a line of subuid(5).
///
/// # Panics
/// When root becomes subordinate to somebody.
#[doc(hidden)]
pub fn fuzz_subordinates(bytes: &[u8]) {
    let range = std::str::from_utf8(bytes).ok().and_then(subordinates);
    assert!(range.is_none_or(|range| !range.is_empty() && !range.contains(&0)));
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::mpsc;

    use super::*;

    const LIMITS: Limits =
        Limits { all: 3, of_user: 2, closing_of_user: 4, closing: 8, stack: 64 << 10 };

    /// A connection that is served until the sender is dropped.
    fn stay(door: &Arc<Door>, uid: u32) -> Result<(mpsc::Sender<()>, UnixStream), UnixStream> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        door.admit(uid, theirs, move |_stream| {
            let _ = ended.recv();
        })?;
        Ok((end, ours))
    }

    #[test]
    fn uids_of_one_range_are_one_user() {
        let text =
            "ann:100000:65536\nbob:165536:65536\n\nodd:1\nnone:5:0\nroot:0:9\nbig:4294967295:2\n";
        let door = Door::with_subordinates(LIMITS, text);
        assert_eq!(door.subordinates, [100_000..=165_535, 165_536..=231_071]);
        let _ann: Vec<_> = [100_000, 165_535].map(|uid| stay(&door, uid).unwrap()).into();
        assert!(stay(&door, 123_456).is_err(), "a third of hers");
        let _bob = stay(&door, 165_536).unwrap();
        assert_eq!(door.users()[&100_000].served, 2);
    }

    #[test]
    fn each_user_has_places_and_root_gets_in() {
        let door = Door::new(LIMITS);
        let ann: Vec<_> = (0..2).map(|_| stay(&door, 1).unwrap()).collect();
        assert!(stay(&door, 1).is_err(), "a third");
        let _bob = stay(&door, 2).unwrap();
        assert!(stay(&door, 3).is_err(), "a fourth of all");
        let _root = stay(&door, 0).unwrap();
        for (end, mut stream) in ann {
            drop(end);
            // Closed when it is served.
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
        while door.users().contains_key(&1) {
            std::thread::yield_now();
        }
        stay(&door, 1).unwrap();
    }

    #[test]
    fn a_place_is_given_back_by_a_panic() {
        let door = Door::new(LIMITS);
        let (_ours, theirs) = UnixStream::pair().unwrap();
        door.admit(1, theirs, |_stream| panic!("as the test wants")).unwrap();
        while door.users().contains_key(&1) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_refused_is_closed() {
        let door = Door::new(LIMITS);
        let ends: Vec<UnixStream> = (0..100)
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                door.close(1, theirs);
                ours
            })
            .collect();
        for mut end in ends {
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
        while !door.users().is_empty() {
            std::thread::yield_now();
        }
    }
}
