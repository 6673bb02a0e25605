//! Which messages a collective operation is made of: pure functions of the operation, the number of
//! members and a member's rank.
//!
//! The methods are those of D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier
//! Synchronization", Int. J. Parallel Programming 17(1), 1988 (barrier by dissemination); J. Bruck
//! et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
//! Systems", IEEE TPDS 8(11), 1997 (gathering for all); and R. Thakur, R. Rabenseifner, W. Gropp,
//! "Optimization of Collective Communication Operations in MPICH", Int. J. High Performance
//! Computing Applications 19(1), 2005 (binomial trees, recursive doubling with a fold for numbers
//! that are no powers of two, pairwise exchange).

use std::ops::Range;

/// Partners that a member of a pairwise exchange deals with at a time.
const PAIRS_MAX: usize = 8;
/// Number of the message that gives a member that was folded away its result.
const UNFOLD: u32 = u32::MAX;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier,
    Broadcast,
    Alltoall,
    Allreduce,
    Allgather,
    ReduceScatter,
    Reduce,
    Scatter,
    Gather,
}

impl Kind {
    /// Whether data are combined.
    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::Allreduce | Self::Reduce | Self::ReduceScatter)
    }
}

/// A member's part in an operation. Lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    kind: Kind,
    /// How many members there are, and which of them this is.
    size: usize,
    rank: usize,
    /// Rank of the member that is distinguished; 0 where none is.
    root: usize,
    /// Length of what one member contributes or gets; of the whole vector where it is the same.
    block_len: usize,
}

/// Which of an operation's two pieces of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where data stand.
    Work,
    /// Where data come in that are not in their place yet.
    Incoming,
}

/// A message to or from another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The other's rank.
    pub(crate) peer: usize,
    /// Tells the messages between two members within one operation apart.
    pub(crate) number: u32,
    pub(crate) place: Place,
    pub(crate) range: Range<usize>,
}

/// What a member does at a time: sends and receives, and when all has been received combines it.
#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) sends: Vec<Transfer>,
    pub(crate) recvs: Vec<Transfer>,
    pub(crate) combine: Option<Combine>,
}

/// Blocks that came in, one behind the other, are combined with one that is here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combine {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) count: usize,
    /// What came in is the first operand.
    pub(crate) reversed: bool,
}

/// A copy between a user's memory and [`Place::Work`], or for the results of
/// [`Kind::Alltoall`] [`Place::Incoming`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    user_at: usize,
    at: usize,
    len: usize,
}

impl Copy {
    /// Which bytes of the user's memory.
    pub(crate) fn user_range(&self) -> Range<usize> {
        self.user_at..self.user_at + self.len
    }

    /// Where they stand in the operation's.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}

impl Plan {
    /// That of member `rank` of `size`, in an operation on blocks of that length from or to member `root`.
    pub(crate) fn new(kind: Kind, size: usize, rank: usize, root: usize, block_len: usize) -> Self {
        Self { kind, size, rank, root, block_len }
    }

    /// Rank of a member counted from the root.
    fn distance(&self) -> usize {
        (self.rank + self.size - self.root) % self.size
    }

    /// The member at that distance from the root.
    fn member(&self, from_root: usize) -> usize {
        (from_root + self.root) % self.size
    }

    /// The member so many ranks further.
    fn ahead(&self, by: usize) -> usize {
        (self.rank + by) % self.size
    }

    fn behind(&self, by: usize) -> usize {
        (self.rank + self.size - by) % self.size
    }

    /// In a binomial tree: the distance to the parent, half of which is that to the first child.
    fn reach(&self) -> usize {
        match self.distance() {
            0 => self.size.next_power_of_two(),
            v => 1 << v.trailing_zeros(),
        }
    }

    /// How many members the part of the tree has that begins at that distance from the root.
    fn extent(&self, from_root: usize, reach: usize) -> usize {
        reach.min(self.size - from_root)
    }

    /// The children in a binomial tree, farthest first: distance from here, members below.
    fn children(&self) -> impl Iterator<Item = (usize, usize)> {
        let (v, this) = (self.distance(), *self);
        let reaches = (0..usize::BITS).map(|bit| 1 << bit).take_while(move |&r| r < this.reach());
        let reaches: Vec<usize> = reaches.filter(|r| v + r < this.size).collect();
        reaches.into_iter().rev().map(move |reach| (reach, this.extent(v + reach, reach)))
    }

    /// How much memory the operation works in: [`Place::Work`] and [`Place::Incoming`]. None where
    /// that is more than can be counted.
    pub(crate) fn scratch(&self) -> Option<(usize, usize)> {
        let blocks = |count: usize| count.checked_mul(self.block_len);
        let own = blocks(self.extent(self.distance(), self.reach()));
        Some(match self.kind {
            Kind::Barrier => (0, 0),
            Kind::Broadcast => (self.block_len, 0),
            Kind::Allreduce | Kind::Reduce => (self.block_len, self.block_len),
            Kind::Allgather => (blocks(self.size)?, 0),
            Kind::Alltoall => (blocks(self.size)?, blocks(self.size)?),
            Kind::ReduceScatter => (blocks(self.size)?, blocks(PAIRS_MAX.min(self.size - 1))?),
            Kind::Scatter | Kind::Gather => (own?, 0),
        })
    }

    /// Where the input of the user goes.
    pub(crate) fn inputs(&self) -> Vec<Copy> {
        let is_root = self.rank == self.root;
        match self.kind {
            Kind::Barrier => vec![],
            Kind::Broadcast if is_root => whole(self.block_len),
            Kind::Broadcast => vec![],
            Kind::Allreduce | Kind::Reduce | Kind::Allgather | Kind::Gather => {
                whole(self.block_len)
            }
            Kind::Alltoall | Kind::ReduceScatter => whole(self.size * self.block_len),
            Kind::Scatter if is_root => self.rotated(self.root),
            Kind::Scatter => vec![],
        }
    }

    /// The part of the input that goes to [`Place::Incoming`], as if this member had sent it to itself.
    pub(crate) fn kept(&self) -> Option<Copy> {
        let at = self.rank * self.block_len;
        (self.kind == Kind::Alltoall).then_some(Copy { user_at: at, at, len: self.block_len })
    }

    /// Where the results stand.
    pub(crate) fn result_place(&self) -> Place {
        if self.kind == Kind::Alltoall { Place::Incoming } else { Place::Work }
    }

    /// Where the user's result comes from.
    pub(crate) fn results(&self) -> Vec<Copy> {
        let is_root = self.rank == self.root;
        match self.kind {
            Kind::Barrier => vec![],
            Kind::Broadcast if is_root => vec![],
            Kind::Broadcast | Kind::Allreduce | Kind::Scatter => whole(self.block_len),
            Kind::Reduce if is_root => whole(self.block_len),
            Kind::Gather if is_root => self.rotated(self.root),
            Kind::Reduce | Kind::Gather => vec![],
            Kind::Allgather => self.rotated(self.rank),
            Kind::Alltoall => whole(self.size * self.block_len),
            Kind::ReduceScatter => {
                let at = self.rank * self.block_len;
                vec![Copy { user_at: 0, at, len: self.block_len }]
            }
        }
    }

    /// All blocks, of which that of member `first` stands first.
    fn rotated(&self, first: usize) -> Vec<Copy> {
        let (split, all) = (first * self.block_len, self.size * self.block_len);
        vec![
            Copy { user_at: split, at: 0, len: all - split },
            Copy { user_at: 0, at: all - split, len: split },
        ]
    }

    /// The step of that number; none when all is done.
    pub(crate) fn step(&self, number: usize) -> Option<Step> {
        match self.kind {
            Kind::Barrier => self.disseminate(number),
            Kind::Broadcast | Kind::Scatter => self.down(number),
            Kind::Gather => self.up(number),
            Kind::Reduce => self.up_combining(number),
            Kind::Allreduce => self.double(number),
            Kind::Allgather => self.bruck(number),
            Kind::Alltoall | Kind::ReduceScatter => self.pairs(number),
        }
    }

    fn block(&self, at: usize, count: usize) -> Range<usize> {
        at * self.block_len..(at + count) * self.block_len
    }

    /// Hensgen, Finkel, Manber: in round k each member tells the one 2^k ahead.
    fn disseminate(&self, round: usize) -> Option<Step> {
        let distance = 1_usize.checked_shl(round as u32).filter(|d| *d < self.size)?;
        let empty = |peer| vec![work(peer, round as u32, 0..0)];
        Some(Step {
            sends: empty(self.ahead(distance)),
            recvs: empty(self.behind(distance)),
            combine: None,
        })
    }

    /// From the parent, then to the children.
    fn down(&self, number: usize) -> Option<Step> {
        let (v, reach) = (self.distance(), self.reach());
        let blocks = |at, count| match self.kind {
            Kind::Broadcast => 0..self.block_len,
            _ => self.block(at, count),
        };
        let mut step = Step::default();
        match number {
            0 if v > 0 => {
                let range = blocks(0, self.extent(v, reach));
                step.recvs.push(work(self.member(v - reach), 0, range));
            }
            0 => {}
            1 => {
                step.sends.extend(self.children().map(|(distance, count)| {
                    work(self.member(v + distance), 0, blocks(distance, count))
                }));
            }
            _ => return None,
        }
        Some(step)
    }

    /// From the children, then to the parent.
    fn up(&self, number: usize) -> Option<Step> {
        let (v, reach) = (self.distance(), self.reach());
        let mut step = Step::default();
        match number {
            0 => step.recvs.extend(self.children().map(|(distance, count)| {
                work(self.member(v + distance), 0, self.block(distance, count))
            })),
            1 if v > 0 => {
                let range = self.block(0, self.extent(v, reach));
                step.sends.push(work(self.member(v - reach), 0, range));
            }
            1 => {}
            _ => return None,
        }
        Some(step)
    }

    /// From one child after the other, nearest first, each combined with what is here, then to the parent.
    fn up_combining(&self, number: usize) -> Option<Step> {
        let (v, reach) = (self.distance(), self.reach());
        let distance = 1_usize.checked_shl(number as u32)?;
        if distance < reach {
            let mut step = Step::default();
            if v + distance < self.size {
                step.recvs.push(incoming(self.member(v + distance), 0, 0..self.block_len));
                step.combine = Some(self.combine_all(false));
            }
            return Some(step);
        }
        let send = || work(self.member(v - reach), 0, 0..self.block_len);
        (distance == reach && v > 0).then(|| Step { sends: vec![send()], ..Step::default() })
    }

    fn combine_all(&self, reversed: bool) -> Combine {
        Combine { at: 0, len: self.block_len, count: 1, reversed }
    }

    /// Recursive doubling among a power of two of members; of the others each has folded its data
    /// into those of a neighbour before, and gets the result from it afterwards.
    fn double(&self, number: usize) -> Option<Step> {
        let power =
            if self.size.is_power_of_two() { self.size } else { self.size.next_power_of_two() / 2 };
        let (rest, all) = (self.size - power, 0..self.block_len);
        let (is_paired, is_folded) = (self.rank < 2 * rest, self.rank.is_multiple_of(2));
        let rounds = power.trailing_zeros() as usize;
        let mut step = Step::default();
        match number {
            0 if is_paired && is_folded => step.sends.push(work(self.rank + 1, 0, all)),
            0 if is_paired => {
                step.recvs.push(incoming(self.rank - 1, 0, all));
                step.combine = Some(self.combine_all(true));
            }
            0 => {}
            n if n <= rounds => {
                if is_paired && is_folded {
                    return Some(step);
                }
                let place = if is_paired { self.rank / 2 } else { self.rank - rest };
                let other = place ^ 1 << (n - 1);
                let peer = if other < rest { 2 * other + 1 } else { other + rest };
                step.sends.push(work(peer, n as u32, all.clone()));
                step.recvs.push(incoming(peer, n as u32, all));
                step.combine = Some(self.combine_all(other < place));
            }
            n if n == rounds + 1 => {
                if is_paired && is_folded {
                    step.recvs.push(work(self.rank + 1, UNFOLD, all));
                } else if is_paired {
                    step.sends.push(work(self.rank - 1, UNFOLD, all));
                }
            }
            _ => return None,
        }
        Some(step)
    }

    /// Bruck: in round k each member gives the one 2^k behind all that it has, which are the blocks
    /// of those ahead of it.
    fn bruck(&self, round: usize) -> Option<Step> {
        let have = 1_usize.checked_shl(round as u32).filter(|have| *have < self.size)?;
        let count = have.min(self.size - have);
        Some(Step {
            sends: vec![work(self.behind(have), round as u32, self.block(0, count))],
            recvs: vec![work(self.ahead(have), round as u32, self.block(have, count))],
            combine: None,
        })
    }

    /// Each block goes straight to the member that it is for.
    fn pairs(&self, number: usize) -> Option<Step> {
        let first = 1 + number * PAIRS_MAX;
        let distances = first..self.size.min(first + PAIRS_MAX);
        if distances.is_empty() {
            return None;
        }
        let sends = distances.clone().map(|by| {
            let to = self.ahead(by);
            work(to, 0, self.block(to, 1))
        });
        let recvs = distances.clone().map(|by| {
            let from = self.behind(by);
            let slot = if self.kind == Kind::Alltoall { from } else { by - first };
            incoming(from, 0, self.block(slot, 1))
        });
        let combine = (self.kind == Kind::ReduceScatter).then(|| Combine {
            at: self.rank * self.block_len,
            len: self.block_len,
            count: distances.len(),
            reversed: false,
        });
        Some(Step { sends: sends.collect(), recvs: recvs.collect(), combine })
    }
}

fn whole(len: usize) -> Vec<Copy> {
    vec![Copy { user_at: 0, at: 0, len }]
}

fn work(peer: usize, number: u32, range: Range<usize>) -> Transfer {
    Transfer { peer, number, place: Place::Work, range }
}

fn incoming(peer: usize, number: u32, range: Range<usize>) -> Transfer {
    Transfer { peer, number, place: Place::Incoming, range }
}

#[cfg(test)]
mod tests;
