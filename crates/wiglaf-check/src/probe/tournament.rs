//! All pairs of several hosts: rounds of disjoint pairs, then many at once.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::lines::Side;
use super::pair::unreached;
use super::{End, PairResult, Plan, measure, stream_together};
use crate::schedule;

/// Starts the probe on the host of that position and says how to talk to it: an ssh, whose standard
/// input and output are [`Lines`](super::Lines). Called from several threads, once a host for all
/// rounds, and once more for each stream of the last one.
pub type Connect<'a> = dyn Fn(usize) -> Result<Box<dyn Side + Send>, String> + Sync + 'a;

/// What a tournament has measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Each pair beside disjoint ones.
    pub pairs: Vec<PairResult>,
    /// Streams of many pairs at once.
    pub together: Vec<PairResult>,
}

/// A host's side, kept from round to round.
enum Kept {
    Side(Box<dyn Side + Send>),
    /// It has failed, so often.
    Failed(u32, String),
}

/// Measures all pairs. No round begins after `budget`, so that with many hosts pairs may be missing;
/// `begins` is told the number of each round and how many there are.
///
/// A host that cannot be reached fails in its pairs alone. It is tried a second time, and no more.
#[must_use]
pub fn tournament(
    hosts: &[(String, Ipv4Addr)],
    connect: &Connect<'_>,
    plan: &Plan,
    budget: Duration,
    begins: &mut dyn FnMut(usize, usize),
) -> Measured {
    let until = Instant::now() + budget;
    let rounds = schedule::rounds(hosts.len());
    let last = schedule::together(hosts.len());
    let count = rounds.len() + usize::from(!last.is_empty());
    let mut measured = Measured::default();
    let mut kept: BTreeMap<usize, Kept> = BTreeMap::new();
    for (number, round) in rounds.iter().enumerate() {
        if Instant::now() >= until {
            return measured;
        }
        begins(number + 1, count);
        let plan = Plan { at_once: round.len() as u32, ..plan.clone() };
        let sides: Vec<_> =
            round.iter().map(|(a, b)| ((*a, kept.remove(a)), (*b, kept.remove(b)))).collect();
        let run = |((a, of_a), (b, of_b))| {
            let (of_a, of_b) = (reach(connect, a, of_a), reach(connect, b, of_b));
            let result = meet(hosts, (a, of_a), (b, of_b), |a, b| measure(a, b, &plan));
            (a, b, result)
        };
        for (a, b, (result, of_a, of_b)) in at_once(sides, &run) {
            measured.pairs.push(result);
            kept.extend([(a, of_a), (b, of_b)]);
        }
    }
    if !last.is_empty() && Instant::now() < until {
        begins(count, count);
        let streams = Plan::streams(plan.ports);
        let streams = Plan {
            stream_ms: if plan.stream_ms < 200 { plan.stream_ms } else { streams.stream_ms },
            link: plan.link.clone(),
            at_once: last.len() as u32,
            ..streams
        };
        // Those that failed before would only fail again.
        let failed = |host: &usize| match kept.get(host) {
            Some(Kept::Failed(times, why)) => Some(Kept::Failed(*times + 1, why.clone())),
            _ => None,
        };
        let pairs = last.iter().map(|(a, b)| ((*a, failed(a)), (*b, failed(b)))).collect();
        let run = |((a, of_a), (b, of_b))| {
            let (of_a, of_b) = (reach(connect, a, of_a), reach(connect, b, of_b));
            meet(hosts, (a, of_a), (b, of_b), |a, b| stream_together(a, b, &streams)).0
        };
        measured.together = at_once(pairs, &run);
    }
    measured
}

/// Runs them all, each on a thread.
fn at_once<T: Send, R: Send>(all: Vec<T>, run: &(impl Fn(T) -> R + Sync)) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(move || run(one))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// The side that is there, or a new one.
fn reach(connect: &Connect<'_>, host: usize, kept: Option<Kept>) -> Kept {
    const TRIES_MAX: u32 = 2;
    let times = match kept {
        Some(side @ Kept::Side(_)) => return side,
        Some(Kept::Failed(times, why)) if times >= TRIES_MAX => return Kept::Failed(times, why),
        Some(Kept::Failed(times, _)) => times,
        None => 0,
    };
    match connect(host) {
        Ok(side) => Kept::Side(side),
        Err(why) => Kept::Failed(times + 1, why),
    }
}

fn meet(
    hosts: &[(String, Ipv4Addr)],
    (a, of_a): (usize, Kept),
    (b, of_b): (usize, Kept),
    run: impl FnOnce(End<'_>, End<'_>) -> PairResult,
) -> (PairResult, Kept, Kept) {
    let [(name_a, at_a), (name_b, at_b)] = [&hosts[a], &hosts[b]];
    let (mut side_a, mut side_b) = match (of_a, of_b) {
        (Kept::Side(a), Kept::Side(b)) => (a, b),
        (of_a, of_b) => {
            let why = match (&of_a, &of_b) {
                (Kept::Failed(_, why), _) => format!("{name_a}: {why}"),
                (_, Kept::Failed(_, why)) => format!("{name_b}: {why}"),
                _ => String::new(),
            };
            return (unreached(name_a, name_b, why), of_a, of_b);
        }
    };
    let result = run(
        End { name: name_a, address: *at_a, side: &mut *side_a },
        End { name: name_b, address: *at_b, side: &mut *side_b },
    );
    // Whoever fell silent has said which; both are asked anew, as an answer may still come.
    let (kept_a, kept_b) = match &result.failure {
        None => (Kept::Side(side_a), Kept::Side(side_b)),
        Some(why) => {
            let of = |name: &str, side| match why.strip_prefix(&format!("{name}: ")) {
                Some(why) => Kept::Failed(1, why.to_owned()),
                None => Kept::Side(side),
            };
            (of(name_a, side_a), of(name_b, side_b))
        }
    };
    (result, kept_a, kept_b)
}
