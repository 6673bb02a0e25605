//! The packet sockets that users have, and how many of them each may have at once.
//!
//! A packet socket outlives the port that it was opened for. A user who collected them would see
//! datagrams of jobs that others start later on these ports. So each user has a bounded number, and no
//! port is lent to anybody while another user holds a packet socket for it.
//!
//! Whether a socket is still open is read from the kernel's table of packet sockets. The helper holds
//! none of them itself. One that was started anew does not know the sockets that the one before it lent.

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys;

/// Sockets that are remembered; beyond it nothing is lent.
const SOCKETS_MAX: usize = 1 << 16;

/// What of all users is open.
#[derive(Debug, Default)]
pub(crate) struct Lent {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// By inode, which tells sockets apart while they are open.
    sockets: HashMap<u64, Socket>,
    /// Sockets that are being opened, by user.
    pending: HashMap<u32, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Socket {
    user: u32,
    at: SocketAddrV4,
}

/// Why there is no other socket for a user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// So many are open already.
    OfUser,
    /// Another user has one for this port.
    OfPort,
}

/// The right to open one more, until it is dropped or [`Reserved::opened`].
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    lent: &'a Lent,
    user: u32,
    at: SocketAddrV4,
}

impl Lent {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a socket for `at`, if `user` has fewer than `limit` and nobody else one for it.
    /// `are_open` tells which of these inodes the kernel still knows.
    pub(crate) fn reserve(
        &self,
        user: u32,
        at: SocketAddrV4,
        limit: usize,
        are_open: impl Fn(&[u64]) -> Vec<u64>,
    ) -> Result<Reserved<'_>, Full> {
        let mut open = self.open();
        let mut full = open.is_full(user, at, limit);
        if full.is_some() {
            // Only now is the table read: it is long where there are many ranks.
            let known: Vec<u64> = open.sockets.keys().copied().collect();
            let alive = are_open(&known);
            open.sockets.retain(|inode, _| alive.contains(inode));
            full = open.is_full(user, at, limit);
        }
        match full {
            Some(full) => Err(full),
            None => {
                *open.pending.entry(user).or_default() += 1;
                drop(open);
                Ok(Reserved { lent: self, user, at })
            }
        }
    }
}

impl Open {
    fn is_full(&self, user: u32, at: SocketAddrV4, limit: usize) -> Option<Full> {
        let pending = self.pending.get(&user).copied().unwrap_or(0);
        let of_user = self.sockets.values().filter(|socket| socket.user == user).count();
        let is_anothers = |socket: &Socket| socket.at == at && socket.user != user;
        if self.sockets.values().any(is_anothers) {
            return Some(Full::OfPort);
        }
        let all = self.sockets.len() + self.pending.values().sum::<usize>();
        (of_user + pending >= limit || all >= SOCKETS_MAX).then_some(Full::OfUser)
    }
}

impl Reserved<'_> {
    /// The socket is there, and has this inode.
    pub(crate) fn opened(self, inode: u64) {
        self.lent.open().sockets.insert(inode, Socket { user: self.user, at: self.at });
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut open = self.lent.open();
        if let Some(count) = open.pending.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                open.pending.remove(&self.user);
            }
        }
    }
}

/// Which of these the kernel still has, as [`Lent::reserve`] wants it. If that cannot be read, all of
/// them.
pub(crate) fn are_open(known: &[u64]) -> Vec<u64> {
    sys::packet_sockets(known).unwrap_or_else(|_| known.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new([10, 77, 0, 1].into(), port)
    }

    #[test]
    fn a_user_gets_so_many_sockets_and_more_when_some_are_closed() {
        let lent = Lent::default();
        let all = |known: &[u64]| known.to_vec();
        for inode in 0..3 {
            lent.reserve(1, at(100), 3, all).unwrap().opened(inode);
        }
        assert_eq!(lent.reserve(1, at(100), 3, all).err(), Some(Full::OfUser));
        lent.reserve(2, at(200), 3, all).unwrap().opened(3);
        let but_one = |known: &[u64]| known.iter().copied().filter(|inode| *inode != 1).collect();
        lent.reserve(1, at(100), 3, but_one).unwrap().opened(4);
        assert_eq!(lent.reserve(1, at(100), 3, but_one).err(), Some(Full::OfUser));
    }

    #[test]
    fn sockets_that_are_being_opened_count() {
        let lent = Lent::default();
        let all = |known: &[u64]| known.to_vec();
        let first = lent.reserve(1, at(100), 1, all).unwrap();
        assert_eq!(lent.reserve(1, at(101), 1, all).err(), Some(Full::OfUser));
        drop(first);
        let second = lent.reserve(1, at(101), 1, all).unwrap();
        second.opened(7);
        assert_eq!(lent.reserve(1, at(102), 1, all).err(), Some(Full::OfUser));
        assert!(lent.open().pending.is_empty());
    }

    #[test]
    fn a_port_is_no_other_users_while_a_socket_for_it_is_open() {
        let lent = Lent::default();
        lent.reserve(1, at(100), 9, <[u64]>::to_vec).unwrap().opened(5);
        assert_eq!(lent.reserve(2, at(100), 9, <[u64]>::to_vec).err(), Some(Full::OfPort));
        lent.reserve(1, at(100), 9, <[u64]>::to_vec).unwrap();
        assert!(lent.reserve(2, at(100), 9, |_| Vec::new()).is_ok(), "it was closed");
    }
}
