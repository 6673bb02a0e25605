//! Congestion control at one port of a switch, in virtual time: 1 Gbit/s, and a
//! queue of 128 full frames.

use std::time::Duration;

use wiglaf_sim::{FRAME_OVERHEAD, Faults, Incast, IncastReport, Stall};

const MS: Duration = Duration::from_millis(1);
/// Header and segment prefix of a bulk datagram.
const HEADERS: usize = 48 + 16;

fn run(scenario: &Incast) -> IncastReport {
    match scenario.run(1, 100 * MS, 300 * MS) {
        Ok(report) => report,
        Err(why) => panic!("{why}"),
    }
}

/// Part of what the headers leave of the line that reached endpoint 0.
fn utilisation(scenario: &Incast, report: &IncastReport) -> f64 {
    let payload = (scenario.frame_len_max - HEADERS) as f64;
    let frame = scenario.frame_len_max as f64 + FRAME_OVERHEAD as f64;
    report.bits_per_s() / (scenario.switch.bits_per_s as f64 * payload / frame)
}

#[test]
fn one_sender_fills_the_line() {
    for frame_len_max in [1472, 8972] {
        let scenario = Incast { frame_len_max, ..Incast::new(1) };
        let report = run(&scenario);
        assert!(utilisation(&scenario, &report) > 0.97, "{report:?}");
        assert_eq!(report.overflowed, 0, "{report:?}");
    }
}

#[test]
fn eight_senders_share_one_receiver() {
    let one = run(&Incast::new(1));
    let eight = run(&Incast::new(8));
    assert!(eight.bits_per_s() >= 0.95 * one.bits_per_s(), "{eight:?}");
    assert!(eight.fairness() >= 0.95, "{} {eight:?}", eight.fairness());
}

/// With long stalls and short queues much is lost at once, also what is sent again. That costs a
/// sender a few round trips, not its share.
#[test]
fn no_sender_is_left_behind_after_losses() {
    let stall = Some(Stall { every: 16 * MS, length: 8 * MS, is_random: true });
    let scenario = Incast { message_len: 64 << 10, stall, ..Incast::new(8) };
    for seed in 6..9 {
        let report = scenario.run(seed, 100 * MS, 300 * MS).unwrap();
        let mean = report.received.iter().sum::<u64>() / 8;
        let least = report.received.iter().min().unwrap();
        assert!(*least > mean / 4, "seed {seed}: {report:?}");
    }
}

/// A packet that others have overtaken kept the only place of a narrow window, in which the front should
/// have gone again; and the pause before a probe went on doubling where all that was under way had been
/// lost before. One sender stood still for a second.
#[test]
fn no_sender_stands_still_behind_its_losses() {
    for (every, length, message_len, seed) in
        [(5, 2, 64 << 10, 12), (5, 2, 20 << 10, 12), (5, 3, 64 << 10, 13)]
    {
        let stall = Some(Stall { every: every * MS, length: length * MS, is_random: true });
        let scenario = Incast { message_len, stall, ..Incast::new(8) };
        let report = scenario.run(seed, 100 * MS, 300 * MS).unwrap();
        let mean = report.received.iter().sum::<u64>() / 8;
        let least = report.received.iter().min().unwrap();
        assert!(*least > mean / 3, "seed {seed}: {report:?}");
    }
}

#[test]
fn a_settled_incast_overflows_no_queue() {
    let long = Incast::new(8).run(1, 100 * MS, 300 * MS).unwrap();
    let short = Incast::new(8).run(1, 100 * MS, MS).unwrap();
    assert_eq!(long.overflowed, short.overflowed, "all in the first 100 ms");
}

#[test]
fn more_senders_than_the_queue_holds_windows() {
    let scenario = Incast::new(64);
    let report = run(&scenario);
    assert!(utilisation(&scenario, &report) > 0.95, "{report:?}");
    assert!(report.fairness() > 0.75, "{} {report:?}", report.fairness());
}

#[test]
fn one_percent_loss_costs_little() {
    let good = run(&Incast::new(1));
    let faults = Faults { drop: 0.01, ..Faults::NONE };
    let bad = run(&Incast { faults, ..Incast::new(1) });
    assert!(bad.stats.bulk_retransmitted > 0);
    assert!(bad.bits_per_s() >= 0.9 * good.bits_per_s(), "{bad:?}");
}

/// What schedulers do to endpoints is no congestion: the window stays as wide as it has to be.
#[test]
fn endpoints_that_lose_their_core_keep_the_line_busy() {
    let stall = Some(Stall { every: 3 * MS, length: MS, is_random: false });
    let scenario = Incast { stall, ..Incast::new(1) };
    let report = run(&scenario);
    assert!(utilisation(&scenario, &report) > 0.95, "{report:?}");
}

#[test]
fn both_directions_at_once() {
    for frame_len_max in [1472, 8972] {
        let scenario = Incast { both_ways: true, frame_len_max, ..Incast::new(1) };
        let report = run(&scenario);
        assert!(utilisation(&scenario, &report) > 0.94, "{report:?}");
    }
}

/// Each end takes its own direction's queue for what it is, and not the other's, also where acknowledgements
/// come all at once.
#[test]
fn both_directions_of_ends_that_lose_their_core_are_even() {
    let stall = Some(Stall { every: 5 * MS, length: MS / 2, is_random: true });
    for frame_len_max in [1472, 8972] {
        for seed in 1..4 {
            let scenario = Incast { both_ways: true, frame_len_max, stall, ..Incast::new(1) };
            let report = scenario.run(seed, 100 * MS, 300 * MS).unwrap();
            let (there, back) = (report.received[0] as f64, report.received_by_others as f64);
            let least = there.min(back) / there.max(back);
            assert!(least > 0.8, "seed {seed}: {report:?}");
        }
    }
}
