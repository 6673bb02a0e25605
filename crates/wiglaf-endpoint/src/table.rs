//! A table of what is under way, by small numbers that operations carry.

use std::hash::{BuildHasherDefault, Hasher};

/// Entries by small number; numbers are used again.
#[derive(Debug)]
pub(crate) struct Table<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop() {
            self.entries[at] = Some(value);
            return at;
        }
        self.entries.push(Some(value));
        self.entries.len() - 1
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.entries.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.entries.get_mut(at)?.as_mut()
    }

    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.entries.get_mut(at)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.len() == self.free.len()
    }

    /// The numbers of all entries that `pick` picks.
    pub(crate) fn find_all(&self, pick: impl Fn(&T) -> bool) -> Vec<usize> {
        let entries = self.entries.iter().enumerate();
        entries.filter(|(_, e)| e.as_ref().is_some_and(&pick)).map(|(at, _)| at).collect()
    }

    /// Removes the entries that `pick` picks.
    pub(crate) fn remove_where(&mut self, pick: impl Fn(&T) -> bool) -> Vec<T> {
        self.find_all(pick).into_iter().filter_map(|at| self.remove(at)).collect()
    }
}

/// The factor of Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
pub(crate) const FIBONACCI: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of maps by peer.
pub(crate) type ByPeer = BuildHasherDefault<PeerHasher>;

/// Peers are numbered by us, so no stranger can choose numbers that collide; and every segment of
/// an eager message asks.
#[derive(Debug, Default)]
pub(crate) struct PeerHasher(u64);

impl Hasher for PeerHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, v: u32) {
        self.0 = (self.0 ^ u64::from(v)).wrapping_mul(FIBONACCI);
    }
}
