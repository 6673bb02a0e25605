//! Whose turn it is.
//!
//! A machine drifts while it measures: it warms up, a neighbour wakes, the
//! page cache fills. Contenders therefore take turns within each round, and
//! the order changes from round to round, so that over as many rounds as
//! there are contenders each has had every place once.
//!
//! Each also leaves something behind, such as memory that is warm or not. So nobody always follows the same
//! one: the orders are those of Williams (Experimental designs balanced for the estimation of residual
//! effects of treatments, Australian Journal of Scientific Research A 2, 1949).

/// The order of turns: `rounds` lists, each with every contender once.
pub fn rounds(contenders: usize, rounds: usize) -> Vec<Vec<usize>> {
    let first: Vec<usize> = (0..contenders).map(|place| zigzag(place, contenders)).collect();
    let order = |round: usize| {
        let mut order: Vec<usize> =
            first.iter().map(|contender| (contender + round) % contenders).collect();
        // With an odd number of contenders those orders have each pair in one direction only.
        if contenders % 2 == 1 && (round / contenders) % 2 == 1 {
            order.reverse();
        }
        order
    };
    (0..rounds).map(order).collect()
}

/// 0, 1, n - 1, 2, n - 2 and so on: all differences of neighbours are different.
fn zigzag(place: usize, contenders: usize) -> usize {
    let step = place.div_ceil(2);
    if place % 2 == 1 { step } else { (contenders - step) % contenders }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes() {
        assert_eq!(rounds(4, 2), [[0, 1, 3, 2], [1, 2, 0, 3]]);
        assert_eq!(rounds(1, 2), [[0], [0]]);
        assert_eq!(rounds(0, 2), [[0usize; 0], []]);
    }

    #[test]
    fn every_contender_has_every_place_once() {
        for contenders in 1..8 {
            let order = rounds(contenders, contenders);
            for place in 0..contenders {
                let mut here: Vec<usize> = order.iter().map(|round| round[place]).collect();
                here.sort_unstable();
                assert_eq!(here, (0..contenders).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_contender_follows_every_other_equally_often() {
        for contenders in 2..8 {
            let many = if contenders % 2 == 0 { contenders } else { 2 * contenders };
            let mut follows = vec![vec![0; contenders]; contenders];
            for order in rounds(contenders, many) {
                order.windows(2).for_each(|pair| follows[pair[0]][pair[1]] += 1);
            }
            let wanted = many / contenders;
            for (before, row) in follows.iter().enumerate() {
                for (after, count) in row.iter().enumerate() {
                    assert_eq!(*count, if before == after { 0 } else { wanted });
                }
            }
        }
    }
}
