//! A table whose 32-bit keys carry a generation, so that a late frame cannot
//! name the successor of what it meant.

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// Entries by key.
#[derive(Debug, Clone)]
pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps `value`, or gives it back when the table is full.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32, T> {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.entries[index as usize];
            entry.1 = Some(value);
            return Ok(entry.0 << INDEX_BITS | index);
        }
        let index = self.entries.len() as u32;
        if index > INDEX_MASK {
            return Err(value);
        }
        self.entries.push((0, Some(value)));
        Ok(index)
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let entry = self.entries.get_mut((key & INDEX_MASK) as usize)?;
        if entry.0 << INDEX_BITS != key & !INDEX_MASK { None } else { entry.1.as_mut() }
    }

    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        self.get_mut(key)?;
        let index = key & INDEX_MASK;
        let entry = &mut self.entries[index as usize];
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(index);
        entry.1.take()
    }

    /// Removes the entries that `pick` chooses and hands them to `each`.
    pub(crate) fn drain_where(&mut self, pick: impl Fn(&T) -> bool, mut each: impl FnMut(T)) {
        for index in 0..self.entries.len() {
            let (generation, entry) = &self.entries[index];
            let key = generation << INDEX_BITS | index as u32;
            if entry.as_ref().is_some_and(&pick)
                && let Some(value) = self.remove(key)
            {
                each(value);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_open_the_new_entry() {
        let mut slab = Slab::default();
        let old = slab.insert("old").unwrap();
        assert_eq!(slab.remove(old), Some("old"));
        let new = slab.insert("new").unwrap();
        assert_ne!(old, new);
        assert_eq!(slab.get_mut(old), None);
        assert_eq!(slab.get_mut(new), Some(&mut "new"));
        assert_eq!(slab.get_mut(77), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn drains_what_was_picked() {
        let mut slab = Slab::default();
        for n in 0..10 {
            slab.insert(n).unwrap();
        }
        let mut out = Vec::new();
        slab.drain_where(|n| n % 2 == 0, |n| out.push(n));
        assert_eq!(out, [0, 2, 4, 6, 8]);
        assert_eq!(slab.len(), 5);
    }
}
