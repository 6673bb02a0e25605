//! All members of an operation in one place, their messages in any order.

use std::collections::{HashMap, HashSet};

use super::*;

/// A member's way through its steps.
struct Member {
    plan: Plan,
    step: usize,
    awaited: Vec<Transfer>,
    combine: Option<Combine>,
    work: Vec<u64>,
    incoming: Vec<u64>,
    done: bool,
}

/// Messages on their way by sender, receiver and number.
#[derive(Default)]
struct Wire {
    messages: HashMap<(usize, usize, u32), Vec<u64>>,
    ever: HashSet<(usize, usize, u32)>,
}

impl Member {
    fn memory(&mut self, place: Place) -> &mut Vec<u64> {
        match place {
            Place::Work => &mut self.work,
            Place::Incoming => &mut self.incoming,
        }
    }

    /// Takes what has come; goes on when a step is complete. True when anything happened.
    fn progress(&mut self, wire: &mut Wire) -> bool {
        let me = self.plan.rank;
        let mut moved = false;
        for t in std::mem::take(&mut self.awaited) {
            match wire.messages.remove(&(t.peer, me, t.number)) {
                Some(data) => {
                    assert_eq!(data.len(), t.range.len(), "{:?}: {t:?}", self.plan);
                    self.memory(t.place)[t.range].copy_from_slice(&data);
                    moved = true;
                }
                None => self.awaited.push(t),
            }
        }
        if !self.awaited.is_empty() || self.done {
            return moved;
        }
        if let Some(c) = self.combine.take() {
            for i in 0..c.count * c.len {
                self.work[c.at + i % c.len] += self.incoming[i];
            }
        }
        let Some(step) = self.plan.step(self.step) else {
            self.done = true;
            return true;
        };
        self.step += 1;
        for t in step.sends {
            let data = self.memory(t.place)[t.range].to_vec();
            let key = (me, t.peer, t.number);
            assert!(t.peer != me && wire.ever.insert(key), "{:?}: {key:?} twice", self.plan);
            wire.messages.insert(key, data);
        }
        (self.awaited, self.combine) = (step.recvs, step.combine);
        true
    }
}

/// What member `rank` puts in: each element says whose it is, and where it stood.
fn input(kind: Kind, rank: usize, size: usize, block: usize) -> Vec<u64> {
    let blocks = match kind {
        Kind::Alltoall | Kind::ReduceScatter | Kind::Scatter => size,
        _ => 1,
    };
    (0..blocks * block).map(|i| (1000 * rank + i + 1) as u64).collect()
}

/// What member `rank` is to get.
fn expected(plan: &Plan) -> Vec<u64> {
    let Plan { kind, size, rank, root, block_len } = *plan;
    let of = |member| input(kind, member, size, block_len);
    let sum = |blocks: Range<usize>| -> Vec<u64> {
        blocks.map(|i| (0..size).map(|member| of(member)[i]).sum()).collect()
    };
    let mine = rank * block_len..(rank + 1) * block_len;
    match kind {
        Kind::Barrier => vec![],
        Kind::Broadcast if rank != root => of(root),
        Kind::Allreduce => sum(0..block_len),
        Kind::Reduce if rank == root => sum(0..block_len),
        Kind::ReduceScatter => sum(mine),
        Kind::Allgather => (0..size).flat_map(of).collect(),
        Kind::Gather if rank == root => (0..size).flat_map(of).collect(),
        Kind::Scatter => of(root)[mine].to_vec(),
        Kind::Alltoall => (0..size).flat_map(|member| of(member)[mine.clone()].to_vec()).collect(),
        Kind::Broadcast | Kind::Reduce | Kind::Gather => vec![],
    }
}

fn begin(plan: Plan) -> Member {
    let (work, incoming) = plan.scratch().unwrap();
    let mut member = Member {
        plan,
        step: 0,
        awaited: vec![],
        combine: None,
        work: vec![0; work],
        incoming: vec![0; incoming],
        done: false,
    };
    let given = input(plan.kind, plan.rank, plan.size, plan.block_len);
    for c in plan.inputs() {
        member.work[c.at..c.at + c.len].copy_from_slice(&given[c.user_at..c.user_at + c.len]);
    }
    if plan.kind == Kind::Alltoall {
        let own = plan.block(plan.rank, 1);
        member.incoming[own.clone()].copy_from_slice(&given[own]);
    }
    member
}

fn result(member: &Member) -> Vec<u64> {
    let copies = member.plan.results();
    let len = copies.iter().map(|c| c.user_at + c.len).max().unwrap_or(0);
    let from = if member.plan.kind == Kind::Alltoall { &member.incoming } else { &member.work };
    let mut result = vec![0; len];
    for c in copies {
        result[c.user_at..c.user_at + c.len].copy_from_slice(&from[c.at..c.at + c.len]);
    }
    result
}

/// Runs an operation; which member goes next is drawn.
fn run(kind: Kind, size: usize, root: usize, block_len: usize, mut seed: u64) {
    let plans = (0..size).map(|rank| Plan { kind, size, rank, root, block_len });
    let mut members: Vec<Member> = plans.map(begin).collect();
    let (mut wire, mut idle) = (Wire::default(), 0);
    while members.iter().any(|member| !member.done) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let next = (seed >> 33) as usize % size;
        idle = if members[next].progress(&mut wire) { 0 } else { idle + 1 };
        assert!(idle < 100 * size * size, "{kind:?} of {size}: nobody gets on");
    }
    assert!(wire.messages.is_empty(), "{kind:?} of {size}: messages that nobody takes");
    for member in &members {
        assert_eq!(result(member), expected(&member.plan), "{:?}", member.plan);
    }
}

const KINDS: [Kind; 9] = [
    Kind::Barrier,
    Kind::Broadcast,
    Kind::Alltoall,
    Kind::Allreduce,
    Kind::Allgather,
    Kind::ReduceScatter,
    Kind::Reduce,
    Kind::Scatter,
    Kind::Gather,
];

#[test]
fn every_operation_gives_its_result_for_any_number_of_members() {
    for kind in KINDS {
        for size in (1..=20).chain([31, 32, 33, 64, 100]) {
            let rooted = [Kind::Broadcast, Kind::Reduce, Kind::Scatter, Kind::Gather];
            let roots = if rooted.contains(&kind) { vec![0, size / 2, size - 1] } else { vec![0] };
            for root in roots {
                run(kind, size, root, 3, (size * 7 + root) as u64);
            }
            run(kind, size, 0, 0, 5);
        }
    }
}

/// The steps of the member that has most of them.
fn steps(kind: Kind, size: usize) -> usize {
    let plan = |rank| Plan { kind, size, rank, root: 0, block_len: 1 };
    let steps = |rank| (0..).take_while(|&n| plan(rank).step(n).is_some()).count();
    (0..size).map(steps).max().unwrap()
}

#[test]
fn steps_grow_with_the_logarithm_where_blocks_do_not_differ() {
    for (kind, size, wanted) in [
        (Kind::Barrier, 1000, 10),
        (Kind::Allgather, 1000, 10),
        (Kind::Allreduce, 1000, 9 + 2),
        (Kind::Reduce, 1000, 10),
        (Kind::Broadcast, 1000, 2),
    ] {
        assert_eq!(steps(kind, size), wanted, "{kind:?}");
    }
}

#[test]
fn memory_that_cannot_be_counted_is_refused() {
    let plan = Plan { kind: Kind::Alltoall, size: 4, rank: 0, root: 0, block_len: usize::MAX / 2 };
    assert_eq!(plan.scratch(), None);
}
