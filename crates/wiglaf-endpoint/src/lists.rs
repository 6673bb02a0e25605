//! Items in the order in which they came, found by whose they are and their tag.
//!
//! A few are looked at one after the other, which takes less time than anything else. Where many
//! wait, receives that were posted ahead or messages that nobody has asked for yet, looking at all of
//! them for each would take longer than the messages do: 28,000 of 8 bytes took 1.6 s. Then they are
//! also in chains, by a hash of peer, class and tag.
//!
//! A receive may ignore bits of a tag. The hash leaves out what receives have ignored: an MPI ignores
//! the same few bits in all receives that name a tag, and most others in those of any.

use std::mem;

use wiglaf_transport::PeerId;
use wiglaf_wire::Class;

use crate::limits::CHAIN_COUNT;
use crate::table::FIBONACCI;

/// No place.
const NONE: u32 = u32::MAX;

/// What is next to an item in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sides {
    prev: u32,
    next: u32,
}

impl Sides {
    const NONE: Self = Self { prev: NONE, next: NONE };
}

/// What an item remembers of its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Links {
    all: Sides,
    chain: Sides,
}

impl Default for Links {
    fn default() -> Self {
        Self { all: Sides::NONE, chain: Sides::NONE }
    }
}

/// Which chain an item is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    peer: PeerId,
    class: Class,
    tag: u64,
}

impl Key {
    pub(crate) fn new(peer: PeerId, class: Class, tag: u64) -> Self {
        Self { peer, class, tag }
    }

    fn chain(&self, ignored: u64) -> usize {
        let tag = if self.class == Class::Untagged { 0 } else { self.tag & !ignored };
        let who = u64::from(self.peer.0) << 8 | self.class as u64;
        // Twice, as tags may differ in their upper bits alone.
        let mixed = (tag.wrapping_mul(FIBONACCI).rotate_left(32) ^ who).wrapping_mul(FIBONACCI);
        (mixed >> (u64::BITS - CHAIN_COUNT.trailing_zeros())) as usize
    }
}

/// What can be in lists.
pub(crate) trait Item {
    /// By what it is found; `None`: only by looking at all.
    fn key(&self) -> Option<Key>;
    /// Bits of its tag that do not count.
    fn ignored(&self) -> u64;
    fn links(&self) -> &Links;
    fn links_mut(&mut self) -> &mut Links;
}

/// The first and the last of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    first: u32,
    last: u32,
}

impl Ends {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

#[derive(Debug)]
enum Place<T> {
    /// And the next one that is free.
    Free(u32),
    Taken(T),
}

/// See the module. Places are numbered; an item keeps its own until it is taken.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    places: Vec<Place<T>>,
    free: u32,
    /// Places that are not free.
    taken: usize,
    all: Ends,
    /// Whether there are chains: from when there are many until there are none.
    chained: bool,
    /// Empty, or [`CHAIN_COUNT`] of them.
    chains: Vec<Ends>,
    /// What is in no chain.
    loose: Ends,
    loose_len: usize,
    /// Bits that hashes leave out, until there are none.
    ignored: u64,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: NONE,
            taken: 0,
            all: Ends::EMPTY,
            chained: false,
            chains: Vec::new(),
            loose: Ends::EMPTY,
            loose_len: 0,
            ignored: 0,
        }
    }
}

impl<T: Item> Lists<T> {
    /// What each item takes, in bytes.
    pub(crate) const PLACE_LEN: usize = size_of::<Place<T>>();

    /// Puts an item behind all others; says in which place it is.
    pub(crate) fn push(&mut self, mut item: T) -> u32 {
        item.links_mut().all = Sides { prev: self.all.last, next: NONE };
        let at = self.place(item);
        match self.links_mut(self.all.last) {
            Some(before) => before.all.next = at,
            None => self.all.first = at,
        }
        self.all.last = at;
        self.chain_up(at);
        at
    }

    /// Puts an item at the end of the chain that is its own.
    #[inline]
    fn chain_up(&mut self, at: u32) {
        let chain = self.chain_of(at);
        self.loose_len += usize::from(chain.is_none());
        let last = mem::replace(&mut self.ends_mut(chain).last, at);
        match self.links_mut(last) {
            Some(before) => before.chain.next = at,
            None => self.ends_mut(chain).first = at,
        }
        if let Some(links) = self.links_mut(at) {
            links.chain = Sides { prev: last, next: NONE };
        }
    }

    /// `None`: it is loose.
    #[inline]
    fn chain_of(&self, at: u32) -> Option<usize> {
        if !self.chained {
            return None;
        }
        let item = self.get(at)?;
        (item.ignored() & !self.ignored == 0).then_some(())?;
        Some(item.key()?.chain(self.ignored))
    }

    fn ends_mut(&mut self, chain: Option<usize>) -> &mut Ends {
        match chain {
            Some(chain) => &mut self.chains[chain],
            None => &mut self.loose,
        }
    }

    /// Whether all that a search that ignores these bits could find is in one chain.
    pub(crate) fn is_chained_for(&self, ignored: u64) -> bool {
        self.chained && ignored & !self.ignored == 0
    }

    /// Has every item in its chain, if it ignores no other bits than `ignored` and those of before.
    pub(crate) fn chain_all(&mut self, ignored: u64) {
        if self.is_chained_for(ignored) {
            return;
        }
        self.chained = true;
        self.ignored |= ignored;
        self.chains.clear();
        self.chains.resize(CHAIN_COUNT, Ends::EMPTY);
        (self.loose, self.loose_len) = (Ends::EMPTY, 0);
        let mut at = self.all.first;
        while let Some(links) = self.get(at).map(Item::links) {
            let next = links.all.next;
            self.chain_up(at);
            at = next;
        }
    }

    /// What is in a place, in a list or aside.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.places.get_mut(at as usize)? {
            Place::Taken(item) => Some(item),
            Place::Free(_) => None,
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        match self.places.get(at as usize)? {
            Place::Taken(item) => Some(item),
            Place::Free(_) => None,
        }
    }

    /// All of them, in their order, with their places.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.walk(self.all.first, |links| links.all.next)
    }

    /// Those that are in no chain, in their order: all where there are few.
    #[inline]
    pub(crate) fn iter_loose(&self) -> impl Iterator<Item = (u32, &T)> {
        self.walk(self.loose.first, |links| links.chain.next)
    }

    /// Those in the chain of `key`, in their order: none where there are few. Others may be in it.
    #[inline]
    pub(crate) fn iter_chain(&self, key: Key) -> impl Iterator<Item = (u32, &T)> {
        let first = if self.chained { self.chains[key.chain(self.ignored)].first } else { NONE };
        self.walk(first, |links| links.chain.next)
    }

    #[inline]
    fn walk(&self, first: u32, next: impl Fn(&Links) -> u32) -> impl Iterator<Item = (u32, &T)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let (here, item) = (at, self.get(at)?);
            at = next(item.links());
            Some((here, item))
        })
    }

    /// Takes an item out of its lists and its place.
    #[inline]
    pub(crate) fn take(&mut self, at: u32) -> Option<T> {
        self.set_aside(at);
        self.take_aside(at)
    }

    /// Takes an item that was set aside out of its place.
    #[inline]
    pub(crate) fn take_aside(&mut self, at: u32) -> Option<T> {
        let place = self.places.get_mut(at as usize)?;
        match mem::replace(place, Place::Free(self.free)) {
            Place::Taken(item) => {
                self.free = at;
                self.taken -= 1;
                Some(item)
            }
            was_free => {
                *place = was_free;
                None
            }
        }
    }

    /// Takes an item out of its lists, once. It stays in its place.
    #[inline]
    pub(crate) fn set_aside(&mut self, at: u32) {
        let chain = self.chain_of(at);
        let Some(Links { all, chain: sides }) = self.get(at).map(|item| *item.links()) else {
            return;
        };
        self.loose_len -= usize::from(chain.is_none());
        match self.links_mut(all.prev) {
            Some(before) => before.all.next = all.next,
            None => self.all.first = all.next,
        }
        match self.links_mut(all.next) {
            Some(behind) => behind.all.prev = all.prev,
            None => self.all.last = all.prev,
        }
        match self.links_mut(sides.prev) {
            Some(before) => before.chain.next = sides.next,
            None => self.ends_mut(chain).first = sides.next,
        }
        match self.links_mut(sides.next) {
            Some(behind) => behind.chain.prev = sides.prev,
            None => self.ends_mut(chain).last = sides.prev,
        }
        if self.all.first == NONE {
            (self.chained, self.ignored) = (false, 0);
        }
    }

    #[inline]
    fn place(&mut self, item: T) -> u32 {
        self.taken += 1;
        let at = self.free;
        match self.places.get_mut(at as usize) {
            Some(place) => {
                if let Place::Free(next) = mem::replace(place, Place::Taken(item)) {
                    self.free = next;
                }
                at
            }
            None => {
                self.places.push(Place::Taken(item));
                (self.places.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn links_mut(&mut self, at: u32) -> Option<&mut Links> {
        self.get_mut(at).map(Item::links_mut)
    }

    /// Whether there are none, not even aside.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// How many there are, also aside.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// How many are in no chain.
    pub(crate) fn loose_len(&self) -> usize {
        self.loose_len
    }

    /// Memory for items and chains, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.places.capacity() * Self::PLACE_LEN + self.chains.capacity() * size_of::<Ends>()
    }

    /// How many there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// Whether the next item needs more memory.
    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE && self.places.len() == self.places.capacity()
    }

    pub(crate) fn reserve_exact(&mut self, more: usize) {
        self.places.reserve_exact(more);
    }

    /// Gives memory back, down to so many places, if all are free.
    pub(crate) fn shrink_to(&mut self, places: usize) {
        if self.is_empty() {
            self.places.clear();
            self.free = NONE;
            self.places.shrink_to(places);
        }
    }

    /// All that there are, also those aside.
    pub(crate) fn everything(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| match place {
            Place::Taken(item) => Some(item),
            Place::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Numbered {
        number: u32,
        key: Option<Key>,
        ignored: u64,
        links: Links,
    }

    impl Item for Numbered {
        fn key(&self) -> Option<Key> {
            self.key
        }

        fn ignored(&self) -> u64 {
            self.ignored
        }

        fn links(&self) -> &Links {
            &self.links
        }

        fn links_mut(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push(Option<Key>, u64),
        /// Of those in the lists, the n-th.
        Take(usize),
        SetAside(usize),
        TakeAside(usize),
        ChainAll(u64),
        Shrink,
    }

    fn key() -> impl Strategy<Value = Key> {
        (0..3_u32, 0..4_u64).prop_map(|(peer, tag)| Key {
            peer: PeerId(peer),
            class: Class::Tagged,
            tag,
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (proptest::option::weighted(0.8, key()), 0..4_u64)
                .prop_map(|(key, ignored)| Step::Push(key, ignored)),
            4 => (0..100_usize).prop_map(Step::Take),
            1 => (0..100_usize).prop_map(Step::SetAside),
            1 => (0..100_usize).prop_map(Step::TakeAside),
            1 => (0..4_u64).prop_map(Step::ChainAll),
            1 => Just(Step::Shrink),
        ]
    }

    /// What a search for `key` finds among those that may match it, as numbers.
    fn found(lists: &Lists<Numbered>, key: Key) -> Vec<u32> {
        let mut found: Vec<u32> = lists
            .iter_chain(key)
            .chain(lists.iter_loose())
            .filter(|(_, item)| is_match(item.key, item.ignored, key))
            .map(|(_, item)| item.number)
            .collect();
        found.sort_unstable(); // of two lists, each in its order
        found
    }

    fn is_match(of: Option<Key>, ignored: u64, key: Key) -> bool {
        of.is_none_or(|of| of.peer == key.peer && (of.tag ^ key.tag) & !ignored == 0)
    }

    #[test]
    fn what_is_ignored_counts_until_the_lists_are_empty() {
        let mut lists = Lists::default();
        for ignored in [0, u64::MAX, 0] {
            let key = Some(Key { peer: PeerId(0), class: Class::Tagged, tag: 1 });
            let at = lists.push(Numbered { number: 0, key, ignored, links: Links::default() });
            lists.chain_all(ignored);
            assert!(lists.is_chained_for(ignored));
            assert_eq!(lists.is_chained_for(1), ignored != 0);
            lists.take(at);
        }
    }

    proptest! {
        /// Against one queue that is searched from its front.
        #[test]
        fn lists_are_what_one_queue_would_be(
            steps in proptest::collection::vec(step(), 0..200),
            asked in key(),
        ) {
            let mut lists = Lists::default();
            let (mut queue, mut aside) = (VecDeque::new(), Vec::new());
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Push(key, ignored) => {
                        let links = Links::default();
                        let at = lists.push(Numbered { number, key, ignored, links });
                        queue.push_back((at, number, key, ignored));
                    }
                    Step::Take(n) if n < queue.len() => {
                        let (at, number, ..) = queue.remove(n).unwrap();
                        prop_assert_eq!(lists.take(at).map(|i| i.number), Some(number));
                    }
                    Step::SetAside(n) if n < queue.len() => {
                        let (at, number, ..) = queue.remove(n).unwrap();
                        lists.set_aside(at);
                        aside.push((at, number));
                    }
                    Step::TakeAside(n) if n < aside.len() => {
                        let (at, number) = aside.remove(n);
                        prop_assert_eq!(lists.get_mut(at).map(|i| i.number), Some(number));
                        prop_assert_eq!(lists.take_aside(at).map(|i| i.number), Some(number));
                        prop_assert!(lists.take_aside(at).is_none());
                    }
                    Step::ChainAll(ignored) => lists.chain_all(ignored),
                    Step::Shrink => lists.shrink_to(4),
                    _ => {}
                }
                prop_assert_eq!(lists.len(), queue.len() + aside.len());
                prop_assert_eq!(lists.everything().count(), lists.len());
                let all = lists.iter().map(|(at, i)| (at, i.number));
                prop_assert!(all.eq(queue.iter().map(|(at, number, ..)| (*at, *number))));
                let right = queue.iter().filter(|(_, _, of, ignored)| is_match(*of, *ignored, asked));
                let right: Vec<u32> = right.map(|(_, number, ..)| *number).collect();
                prop_assert_eq!(found(&lists, asked), right);
            }
        }
    }
}
