//! One endpoint among thousands, in virtual time.

use wiglaf_sim::Star;

#[test]
fn ten_thousand_peers_are_served_without_a_retransmission() {
    let mut star = Star::new(1, 10_000);
    // No clock: nothing is measured here.
    let cost = star.run(40_000, 1, &mut || 0).unwrap();
    assert_eq!(cost.messages, 40_000);
    assert_eq!(cost.stats.ordered_retransmitted, 0);
    assert_eq!(cost.stats.probes, 0);
}
