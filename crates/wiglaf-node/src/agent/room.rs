//! Room for requests: what users have sent and an init has not dealt with yet is bounded, for each.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of one user: the requests of many commands that start at once, or four of the longest.
const OF_USER_MAX: usize = 4 * crate::proto::MESSAGE_LEN_MAX;

/// How many bytes of requests each user has here.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    taken: Mutex<HashMap<u32, usize>>,
}

/// What a request has taken of its user's room, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Room<'a> {
    rooms: &'a Rooms,
    uid: u32,
    len: std::cell::Cell<usize>,
}

impl Rooms {
    /// Room of that user, of which nothing is taken yet.
    pub(super) fn of(&self, uid: u32) -> Room<'_> {
        Room { rooms: self, uid, len: std::cell::Cell::new(0) }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room<'_> {
    /// Takes so many bytes more, if they are free.
    pub(super) fn take(&self, len: usize) -> bool {
        let mut users = self.rooms.taken();
        let taken = users.entry(self.uid).or_default();
        let fits = OF_USER_MAX - *taken >= len;
        if fits {
            *taken += len;
            self.len.set(self.len.get() + len);
        }
        fits
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut users = self.rooms.taken();
        if let Some(taken) = users.get_mut(&self.uid) {
            *taken -= self.len.get();
        }
        users.retain(|_, taken| *taken > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_room_and_gets_it_back() {
        let rooms = Rooms::default();
        let first = rooms.of(1);
        assert!(first.take(OF_USER_MAX - 1) && first.take(1));
        let second = rooms.of(1);
        assert!(!second.take(1));
        assert!(rooms.of(2).take(OF_USER_MAX), "another's");
        drop(first);
        assert!(second.take(OF_USER_MAX));
        drop(second);
        assert!(rooms.taken().is_empty());
    }
}
