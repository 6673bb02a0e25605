//! Whose turn it is.
//!
//! A machine drifts while it measures: it warms up, a neighbour wakes, the
//! page cache fills. Contenders therefore take turns within each round, and
//! the order rotates from round to round, so that over as many rounds as
//! there are contenders each has had every place once.

/// The order of turns: `rounds` lists, each with every contender once.
pub fn rounds(contenders: usize, rounds: usize) -> Vec<Vec<usize>> {
    (0..rounds)
        .map(|round| (0..contenders).map(|place| (place + round) % contenders).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_rotates() {
        assert_eq!(rounds(3, 4), [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
        assert_eq!(rounds(0, 2), [[0usize; 0], []]);
    }

    #[test]
    fn every_contender_has_every_place_once() {
        let order = rounds(4, 4);
        for place in 0..4 {
            let mut here: Vec<usize> = order.iter().map(|round| round[place]).collect();
            here.sort_unstable();
            assert_eq!(here, [0, 1, 2, 3]);
        }
    }
}
