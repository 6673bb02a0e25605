//! Which pairs are measured at once: each host in one pair at a time, so that a pair has its two
//! cables for itself and what is slow is the pair's own.

/// The rounds of a tournament of `count` hosts: each pair meets once, each host at most once a round.
/// Hosts are their positions; the smaller stands first.
#[must_use]
pub fn rounds(count: usize) -> Vec<Vec<(usize, usize)>> {
    if count < 2 {
        return Vec::new();
    }
    // The circle method: the first stands still, the others move on by one place each round. Of an
    // odd number one has nobody to meet, in turn.
    let seats = count + count % 2;
    let circle = |round: usize, seat: usize| match seat {
        0 => 0,
        seat => (seat - 1 + round) % (seats - 1) + 1,
    };
    let of_round = |round| {
        let pairs =
            (0..seats / 2).map(|seat| (circle(round, seat), circle(round, seats - 1 - seat)));
        let real = pairs.filter(|(a, b)| *a < count && *b < count);
        real.map(|(a, b)| (a.min(b), a.max(b))).collect()
    };
    (0..seats - 1).map(of_round).collect()
}

/// The pairs that stream at once in the end, which shows what the switch bears: all pairs of few
/// hosts; of many, each host sends to the next and receives from the last.
#[must_use]
pub fn together(count: usize) -> Vec<(usize, usize)> {
    /// Each host has a process for each of its pairs.
    const ALL_PAIRS_MAX: usize = 8;
    match count {
        0..=2 => Vec::new(),
        3..=ALL_PAIRS_MAX => (0..count).flat_map(|b| (0..b).map(move |a| (a, b))).collect(),
        _ => (0..count).map(|host| (host, (host + 1) % count)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_meets_once_and_no_host_is_in_two_pairs_of_a_round() {
        for count in 0..=65 {
            let rounds = rounds(count);
            let mut met = BTreeSet::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for (a, b) in round {
                    assert!(a < b && *b < count, "{count}: {a} {b}");
                    assert!(busy.insert(*a) && busy.insert(*b), "{count}: {round:?}");
                    assert!(met.insert((*a, *b)), "{count}: {a} and {b} meet twice");
                }
                assert!(round.len() == count / 2, "{count}: {round:?}");
            }
            assert_eq!(met.len(), count * count.saturating_sub(1) / 2, "{count}");
            assert!(rounds.len() <= count, "{count}: {} rounds", rounds.len());
        }
    }

    #[test]
    fn in_the_end_every_host_sends_and_receives() {
        for count in 3..40 {
            let pairs = together(count);
            for host in 0..count {
                assert!(pairs.iter().any(|(a, b)| *a == host || *b == host), "{count}: {host}");
            }
        }
        assert_eq!((together(4).len(), together(64).len()), (6, 64));
    }
}
