//! Maps by epoch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use wiglaf_wire::Epoch;

/// What is kept by epoch.
pub(crate) type ByEpoch<T> = HashMap<Epoch, T, BuildHasherDefault<EpochHasher>>;

/// Epochs are random already: they are their own hash.
#[derive(Debug, Default)]
pub(crate) struct EpochHasher(u64);

impl Hasher for EpochHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, v: u64) {
        self.0 ^= v;
    }
}
