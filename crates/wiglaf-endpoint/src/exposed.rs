//! Memory that peers may reach: regions by key, and the checks before any of
//! them is touched.
//!
//! Several endpoints may share the regions, as those of a libfabric domain do.
//! A lock is held while memory is copied, so that a region that has been
//! withdrawn is not touched any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::atomics::{Element, Function, apply};
use crate::memory::{Region, Regions};

/// What peers may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Read it.
    pub read: bool,
    /// Write it.
    pub write: bool,
}

impl Access {
    pub(crate) const READ: Self = Self { read: true, write: false };
    pub(crate) const WRITE: Self = Self { read: false, write: true };
}

/// Why a one-sided operation was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No region has that key, or it has been withdrawn.
    Key,
    /// The region does not grant what was asked for.
    Access,
    /// The range does not lie within the region.
    Bounds,
    /// A function, type or length that makes no sense.
    Malformed,
    /// The target had no room to ask for what was announced.
    Room,
}

impl Refusal {
    /// As an answer says it; 0 would be success.
    pub(crate) fn status(self) -> u64 {
        match self {
            Self::Key => 1,
            Self::Access => 2,
            Self::Bounds => 3,
            Self::Malformed => 4,
            Self::Room => 5,
        }
    }
}

/// Why memory was not exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExposeError {
    /// Another region has that key.
    KeyTaken,
    /// Too many pieces, a null one that is not empty, or a sum that overflows.
    Invalid,
}

#[derive(Debug)]
struct Exposure {
    /// Tells a region from a later one with the same key.
    serial: u64,
    base: u64,
    access: Access,
    regions: Regions,
}

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<u64, Exposure>,
    serial: u64,
}

/// Regions that peers may reach.
#[derive(Debug, Clone, Default)]
pub struct Exposed(Arc<Mutex<Table>>);

/// A range of a region that has passed all checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    key: u64,
    serial: u64,
    offset: usize,
    len: usize,
}

impl Grant {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Exposed {
    /// Lets peers reach the regions, one behind the other, as `key`; they name
    /// the first byte `base`.
    ///
    /// # Errors
    /// [`ExposeError`]; nothing is exposed.
    ///
    /// # Safety
    /// The memory must stay valid for what `access` grants until
    /// [`Exposed::withdraw`] has returned. Peers change it at any time.
    pub unsafe fn expose(
        &self,
        key: u64,
        base: u64,
        access: Access,
        regions: &[Region],
    ) -> Result<(), ExposeError> {
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(ExposeError::Invalid)?;
        let mut table = self.table();
        if table.by_key.contains_key(&key) {
            return Err(ExposeError::KeyTaken);
        }
        table.serial += 1;
        let serial = table.serial;
        table.by_key.insert(key, Exposure { serial, base, access, regions });
        Ok(())
    }

    /// Withdraws a region; false when there is none. Its memory is not touched
    /// any more once this returns.
    pub fn withdraw(&self, key: u64) -> bool {
        self.table().by_key.remove(&key).is_some()
    }

    /// Whether what was granted has not been withdrawn.
    pub(crate) fn is_granted(&self, grant: &Grant) -> bool {
        self.table().by_key.get(&grant.key).is_some_and(|region| region.serial == grant.serial)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing that holds the lock can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks an operation on `len` bytes from `address` on.
    pub(crate) fn check(
        &self,
        key: u64,
        address: u64,
        len: u64,
        needed: Access,
    ) -> Result<Grant, Refusal> {
        //= docs/protocol.md#10-one-sided-operations
        //# A target MUST refuse an operation whose key is not registered, whose access was not granted, or whose range, computed without overflow, does not lie within the region.
        let table = self.table();
        let region = table.by_key.get(&key).ok_or(Refusal::Key)?;
        if needed.read && !region.access.read || needed.write && !region.access.write {
            return Err(Refusal::Access);
        }
        let whole = region.regions.len() as u64;
        let offset = address.checked_sub(region.base).ok_or(Refusal::Bounds)?;
        let end = offset.checked_add(len).filter(|end| *end <= whole);
        end.ok_or(Refusal::Bounds)?;
        // Both lie within the region, whose length is a usize.
        Ok(Grant { key, serial: region.serial, offset: offset as usize, len: len as usize })
    }

    /// Runs `touch` on the region of a grant, if it has not been withdrawn.
    fn with(&self, grant: &Grant, touch: impl FnOnce(&Regions)) -> bool {
        //= docs/protocol.md#10-one-sided-operations
        //# A target MUST NOT touch a region once it has been withdrawn; bytes that still come for it are dropped.
        let table = self.table();
        let region = table.by_key.get(&grant.key).filter(|r| r.serial == grant.serial);
        if let Some(region) = region {
            touch(&region.regions);
        }
        region.is_some()
    }

    /// Writes within a granted range; false when the region is no longer there.
    pub(crate) fn write(&self, grant: &Grant, at: usize, bytes: &[u8]) -> bool {
        let len = grant.len.saturating_sub(at).min(bytes.len());
        self.with(grant, |regions| regions.write(grant.offset + at, &bytes[..len]))
    }

    /// Reads from a granted range; false when the region is no longer there.
    pub(crate) fn read(&self, grant: &Grant, at: usize, out: &mut [u8]) -> bool {
        let len = grant.len.saturating_sub(at).min(out.len());
        self.with(grant, |regions| regions.read(grant.offset + at, &mut out[..len]))
    }

    /// Applies a function to each element of a granted range, and tells
    /// `fetched` of the former values. False when the region is not there.
    pub(crate) fn update(
        &self,
        grant: &Grant,
        function: Function,
        element: Element,
        operands: &[u8],
        comparands: &[u8],
        fetched: &mut [u8],
    ) -> bool {
        let len = element.len();
        self.with(grant, |regions| {
            for at in (0..grant.len).step_by(len) {
                if function == Function::Read {
                    if let Some(fetched) = fetched.get_mut(at..at + len) {
                        regions.load(grant.offset + at, fetched);
                    }
                    continue;
                }
                let operand = operands.get(at..at + len).unwrap_or_default();
                let comparand = comparands.get(at..at + len).unwrap_or_default();
                regions.update(grant.offset + at, len, |place| {
                    if let Some(fetched) = fetched.get_mut(at..at + len) {
                        fetched.copy_from_slice(place);
                    }
                    apply(function, element, place, operand, comparand);
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    const BOTH: Access = Access { read: true, write: true };

    fn region(bytes: &mut [u8]) -> Region {
        Region { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }

    #[test]
    fn a_wrong_key_right_or_bound_is_refused() {
        let (exposed, mut memory) = (Exposed::default(), [0; 16]);
        let all = [region(&mut memory)];
        // SAFETY: the array outlives the table.
        unsafe {
            exposed.expose(1, 1000, Access::READ, &all).unwrap();
            exposed.expose(2, u64::MAX - 3, BOTH, &all).unwrap();
            assert_eq!(exposed.expose(2, 0, BOTH, &all), Err(ExposeError::KeyTaken));
        }
        let check = |key, address, len, needed| exposed.check(key, address, len, needed).err();
        assert_eq!(check(3, 1000, 1, Access::READ), Some(Refusal::Key));
        assert_eq!(check(1, 1000, 1, Access::WRITE), Some(Refusal::Access));
        assert_eq!(check(1, 1000, 1, BOTH), Some(Refusal::Access));
        for (address, len) in [(999, 1), (1000, 17), (1016, 1), (1017, 0), (1001, u64::MAX)] {
            assert_eq!(check(1, address, len, Access::READ), Some(Refusal::Bounds), "{address}");
        }
        for (address, len) in [(1000, 0), (1000, 16), (1015, 1), (1016, 0)] {
            assert_eq!(check(1, address, len, Access::READ), None, "{address}");
        }
        // The sum of base and length overflows; the sums of the check do not.
        assert_eq!(check(2, u64::MAX, 14, BOTH), Some(Refusal::Bounds));
        assert_eq!(check(2, u64::MAX, 13, BOTH), None);
        assert_eq!(check(2, 5, 1, BOTH), Some(Refusal::Bounds));
    }

    #[test]
    fn a_grant_ends_with_its_region() {
        let (exposed, mut memory) = (Exposed::default(), [0; 8]);
        let all = [region(&mut memory)];
        // SAFETY: the array outlives the table.
        unsafe { exposed.expose(7, 0, BOTH, &all).unwrap() };
        let grant = exposed.check(7, 2, 4, BOTH).unwrap();
        assert!(exposed.write(&grant, 2, &[1, 2, 3]));
        assert!(exposed.withdraw(7) && !exposed.withdraw(7));
        assert!(!exposed.write(&grant, 0, &[9]));
        // SAFETY: as above.
        unsafe { exposed.expose(7, 0, BOTH, &all).unwrap() };
        assert!(!exposed.write(&grant, 0, &[9]), "another region with that key");
        assert_eq!(memory, [0, 0, 0, 0, 1, 2, 0, 0], "no byte beyond the grant");
    }

    /// Whoever withdraws a region frees its memory next.
    #[test]
    fn a_region_is_not_withdrawn_while_it_is_touched() {
        let (exposed, mut memory) = (Exposed::default(), [0; 8]);
        // SAFETY: the array outlives the table.
        unsafe { exposed.expose(7, 0, BOTH, &[region(&mut memory)]).unwrap() };
        let grant = exposed.check(7, 0, 8, BOTH).unwrap();
        let (barrier, events) = (Barrier::new(2), Mutex::new(Vec::new()));
        let note = |what| events.lock().unwrap().push(what);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                assert!(exposed.withdraw(7));
                note("withdrawn");
            });
            let is_there = exposed.with(&grant, |_| {
                barrier.wait();
                // What the other thread waits for until this has ended.
                assert!(exposed.0.try_lock().is_err(), "nothing keeps it from being withdrawn");
                note("touched");
            });
            assert!(is_there);
        });
        assert_eq!(*events.lock().unwrap(), ["touched", "withdrawn"]);
    }

    #[test]
    fn elements_are_updated_one_by_one() {
        let (exposed, mut memory) = (Exposed::default(), [0; 12]);
        memory[1..9].copy_from_slice(&[1, 0, 2, 0, 3, 0, 4, 0]);
        // SAFETY: the array outlives the table.
        unsafe { exposed.expose(7, 0, BOTH, &[region(&mut memory)]).unwrap() };
        for at in [1, 4] {
            let grant = exposed.check(7, at, 4, BOTH).unwrap();
            let mut old = [0; 4];
            let add = [10, 0, 20, 0];
            assert!(exposed.update(&grant, Function::Sum, Element::U16, &add, &[], &mut old));
        }
        assert_eq!(memory, [0, 11, 0, 22, 10, 3, 20, 4, 0, 0, 0, 0]);
    }
}
