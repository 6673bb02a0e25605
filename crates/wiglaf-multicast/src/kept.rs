//! What a root has sent and somebody may still ask for again.

use std::collections::VecDeque;
use std::sync::Arc;

/// Messages of the last operations in which this member was the root, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    messages: VecDeque<(u64, Arc<[u8]>)>,
    len: usize,
}

impl Kept {
    /// Most messages.
    pub(crate) const COUNT_MAX: usize = 256;
    /// Most bytes of all of them.
    pub(crate) const LEN_MAX: usize = 256 << 10;

    /// Whether one of `len` bytes may be added.
    pub(crate) fn has_space(&self, len: usize) -> bool {
        self.messages.is_empty()
            || (self.messages.len() < Self::COUNT_MAX && self.len + len <= Self::LEN_MAX)
    }

    pub(crate) fn add(&mut self, operation: u64, message: Arc<[u8]>) {
        self.len += message.len();
        self.messages.push_back((operation, message));
    }

    /// Drops those that lie behind all members.
    pub(crate) fn forget_below(&mut self, operation: u64) {
        while let Some((_, message)) = self.messages.pop_front_if(|(kept, _)| *kept < operation) {
            self.len -= message.len();
        }
    }

    pub(crate) fn get(&self, operation: u64) -> Option<Arc<[u8]>> {
        let found = self.messages.binary_search_by_key(&operation, |(kept, _)| *kept).ok()?;
        Some(Arc::clone(&self.messages[found].1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_have_is_forgotten_and_makes_room() {
        let mut kept = Kept::default();
        assert!(kept.has_space(usize::MAX), "one message is always kept, however long");
        for operation in [2, 3, 7] {
            kept.add(operation, vec![operation as u8; Kept::LEN_MAX / 3].into());
        }
        assert!(!kept.has_space(Kept::LEN_MAX / 3));
        assert_eq!(kept.get(3).unwrap()[0], 3);
        assert!(kept.get(4).is_none());
        kept.forget_below(4);
        assert!(kept.get(3).is_none() && kept.get(7).is_some());
        assert!(kept.has_space(Kept::LEN_MAX / 3));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut kept = Kept::default();
        (0..Kept::COUNT_MAX as u64).for_each(|operation| kept.add(operation, Arc::default()));
        assert!(!kept.has_space(0));
        kept.forget_below(1);
        assert!(kept.has_space(0));
    }
}
