//! Every byte, order and exactly-once under faults, from fixed seeds.

use std::time::Duration;

use wiglaf_sim::{Faults, Load, Mishap, Report, Scenario, What, World};

fn run(seed: u64, endpoints: usize, faults: Faults, load: Load) -> Report {
    match World::new(seed, endpoints, faults).run(load, Duration::from_secs(600)) {
        Ok(report) => report,
        Err(why) => panic!("{why}"),
    }
}

const LOAD: Load = Load { messages_per_pair: 500, len_max: 200_000 };

#[test]
fn a_good_network_needs_no_retransmission() {
    let report = run(1, 2, Faults::NONE, LOAD);
    assert_eq!(report.messages, 1000);
    assert_eq!(report.stats.ordered_retransmitted + report.stats.bulk_retransmitted, 0);
    assert_eq!(report.stats.duplicates, 0);
}

#[test]
fn five_percent_loss_duplication_and_reordering() {
    let faults = Faults { drop: 0.05, duplicate: 0.05, reorder: 0.05, ..Faults::NONE };
    for seed in 0..20 {
        let report = run(seed, 3, faults, LOAD);
        assert!(report.stats.ordered_retransmitted > 0 && report.stats.bulk_retransmitted > 0);
        assert!(report.stats.duplicates > 0 && report.stats.out_of_order > 0);
    }
}

#[test]
fn corruption_is_dropped_and_counted() {
    let faults = Faults { corrupt: 0.05, ..Faults::NONE };
    let report = run(7, 2, faults, LOAD);
    assert!(report.stats.drop_checksum > 0 && report.stats.drop_proof > 0);
}

#[test]
fn thirty_percent_loss_with_everything_else() {
    let faults = Faults {
        drop: 0.3,
        duplicate: 0.1,
        corrupt: 0.02,
        reorder: 0.2,
        jitter: Duration::from_millis(1),
        ..Faults::NONE
    };
    for seed in 0..5 {
        run(seed, 2, faults, Load { messages_per_pair: 300, len_max: 50_000 });
    }
}

#[test]
fn a_network_that_does_not_carry_the_longest_datagrams_loses_no_message() {
    for (seed, carries) in (40..).zip([700, 900, 1471, 1472]) {
        let faults = Faults { drop: 0.1, duplicate: 0.05, carries: Some(carries), ..Faults::NONE };
        run(seed, 3, faults, Load { messages_per_pair: 200, len_max: 100_000 });
        let load = Load { messages_per_pair: 200, len_max: 100_000 };
        let restart = Mishap {
            after: Duration::from_millis(20),
            lasts: Duration::ZERO,
            what: What::Restart { node: 1 },
        };
        let plain = Scenario::plain(seed, 3, faults, load);
        let scenario = Scenario { encrypt: true, mishaps: vec![restart], ..plain };
        scenario.run().unwrap_or_else(|why| panic!("{carries} bytes: {why}"));
    }
}

/// What was made for the wider network goes in parts.
#[test]
fn a_network_that_narrows_under_way_loses_no_message() {
    for (seed, carries) in (60..).zip([700, 900, 1300, 1471]) {
        let faults = Faults {
            drop: 0.1,
            duplicate: 0.05,
            reorder: 0.1,
            carries: Some(carries),
            carries_all_for: Duration::from_millis(10),
            ..Faults::NONE
        };
        let load = Load { messages_per_pair: 2000, len_max: 100_000 };
        let plain = Scenario::plain(seed, 3, faults, load);
        for encrypt in [false, true] {
            let scenario = Scenario { encrypt, ..plain.clone() };
            let report = scenario.run().unwrap_or_else(|why| panic!("{carries} bytes: {why}"));
            assert!(report.stats.paths_narrowed > 0, "{carries}: {:?}", report.stats);
        }
    }
}

/// Each damaged bit is noticed by the tag alone, and a packet that is sent again is encrypted anew.
#[test]
fn encrypted_datagrams_get_through_the_same() {
    let faults = Faults {
        drop: 0.2,
        duplicate: 0.1,
        corrupt: 0.05,
        reorder: 0.2,
        jitter: Duration::from_millis(1),
        ..Faults::NONE
    };
    let restart = Mishap {
        after: Duration::from_millis(3),
        lasts: Duration::ZERO,
        what: What::Restart { node: 1 },
    };
    for seed in 0..3 {
        let load = Load { messages_per_pair: 200, len_max: 50_000 };
        let plain = Scenario::plain(seed, 3, faults, load);
        let scenario = Scenario { encrypt: true, mishaps: vec![restart], ..plain };
        let report = scenario.run().unwrap_or_else(|why| panic!("{why}"));
        assert!(report.stats.drop_proof > 0 && report.stats.ordered_retransmitted > 0);
        assert!(report.stats.bulk_retransmitted > 0);
        assert_eq!(report.stats.drop_checksum, 0);
    }
}

/// Of packet numbers 40 bits travel, of what acknowledges them and of credit 32: wherever they begin,
/// the same happens.
#[test]
fn a_session_goes_on_where_the_bits_that_travel_end() {
    let faults =
        Faults { drop: 0.05, duplicate: 0.05, corrupt: 0.01, reorder: 0.05, ..Faults::NONE };
    let restart = Mishap {
        after: Duration::from_millis(3),
        lasts: Duration::ZERO,
        what: What::Restart { node: 1 },
    };
    for (seed, encrypt) in [(5, false), (6, true)] {
        let plain = Scenario::plain(seed, 3, faults, LOAD);
        let from_0 = Scenario { encrypt, mishaps: vec![restart], ..plain };
        let expected = from_0.run().unwrap_or_else(|why| panic!("{why}"));
        for numbers_from in [(1 << 32) - 100, (1 << 40) - 100] {
            let scenario = Scenario { numbers_from, ..from_0.clone() };
            let report = scenario.run().unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((report.elapsed, report.stats), (expected.elapsed, expected.stats));
        }
    }
}

#[test]
fn many_endpoints_all_to_all() {
    let faults = Faults { drop: 0.01, ..Faults::NONE };
    run(11, 24, faults, Load { messages_per_pair: 20, len_max: 4_000 });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let faults = Faults { drop: 0.05, duplicate: 0.05, reorder: 0.05, ..Faults::NONE };
    let (a, b) = (run(42, 3, faults, LOAD), run(42, 3, faults, LOAD));
    assert_eq!((a.elapsed, a.stats), (b.elapsed, b.stats));
    assert_ne!(run(43, 3, faults, LOAD).stats, a.stats);
}

/// Seed 47 of `cargo xtask sim`: once a shrunken congestion window kept the
/// probe in that would have opened it.
#[test]
fn a_shrunken_window_does_not_keep_the_probe_in() {
    let faults = Faults {
        drop: 0.34,
        duplicate: 0.05,
        reorder: 0.25,
        latency: Duration::from_micros(40),
        jitter: Duration::from_micros(1500),
        ..Faults::NONE
    };
    for seed in 40..50 {
        run(seed, 5, faults, Load { messages_per_pair: 300, len_max: 60_000 });
    }
}

/// Found by seed 578: announcements and grants that a process had acknowledged before it died were
/// awaited for ever, since nothing more was sent to it. What one seed meets changes with the transport.
#[test]
fn who_awaits_bytes_or_a_grant_of_the_dead_is_told() {
    let ms = Duration::from_millis;
    let faults = Faults { drop: 0.2, reorder: 0.2, jitter: ms(1), ..Faults::NONE };
    let restart = Mishap { after: ms(3), lasts: ms(0), what: What::Restart { node: 1 } };
    for seed in 0..12 {
        let load = Load { messages_per_pair: 200, len_max: 50_000 };
        let plain = Scenario::plain(seed, 3, faults, load);
        let run = Scenario { mishaps: vec![restart], ..plain }.run();
        assert!(run.is_ok(), "{run:?}");
    }
}

/// Partitions, pauses, restarts, skewed clocks, bursts and encryption, in any mixture.
#[test]
fn mishaps_lose_nothing_and_hang_nobody() {
    let scenarios: Vec<Scenario> = (0..12).map(Scenario::from_seed).collect();
    for scenario in &scenarios {
        let run = scenario.run();
        assert!(run.is_ok(), "{run:?}");
    }
    let encrypted = scenarios.iter().filter(|scenario| scenario.encrypt).count();
    assert!((1..12).contains(&encrypted), "{encrypted} of 12 are encrypted");
}

/// Those that it separates may give each other up, each once; all others lose nothing, and whoever waits
/// for one that has given him up is told.
#[test]
fn a_partition_that_outlasts_the_patience_parts_only_whom_it_separates() {
    for (seed, one_way) in [(1, false), (2, true), (3, false)] {
        let cut = Mishap {
            after: Duration::from_millis(2),
            lasts: Duration::from_secs(25),
            what: What::Partition { set: 1, one_way },
        };
        let plain = Scenario::plain(seed, 4, Faults { drop: 0.05, ..Faults::NONE }, LOAD);
        let run = Scenario { mishaps: vec![cut], ..plain }.run();
        let report = run.unwrap_or_else(|why| panic!("{why}"));
        // All messages among the other three, and not all of the first.
        assert!((3000..6000).contains(&report.messages), "{} messages", report.messages);
        assert!(report.elapsed > Duration::from_secs(20));
    }
}

#[test]
fn a_receiver_may_want_less_or_nothing() {
    let faults = Faults { drop: 0.05, duplicate: 0.05, reorder: 0.05, ..Faults::NONE };
    for seed in 0..4 {
        let load = Load { messages_per_pair: 200, len_max: 1 << 20 };
        let plain = Scenario::plain(seed, 3, faults, load);
        let run = Scenario { short_buffers: true, ..plain }.run();
        assert!(run.is_ok(), "{run:?}");
    }
}

/// An endpoint that dies while everybody sends to it, and clocks that differ by up to 5 %.
#[test]
fn a_restart_between_skewed_clocks_is_survived() {
    let ms = Duration::from_millis;
    let restart = |after| Mishap { after, lasts: ms(0), what: What::Restart { node: 0 } };
    let scenario = Scenario {
        skew_ppm: 50_000,
        mishaps: vec![restart(ms(2)), restart(ms(4))],
        ..Scenario::plain(3, 4, Faults { drop: 0.05, ..Faults::NONE }, LOAD)
    };
    let run = scenario.run();
    assert!(run.is_ok(), "{run:?}");
}

/// Nobody reads for moments, sockets overflow, and the network itself loses nothing.
#[test]
fn what_sockets_have_no_room_for_is_sent_again() {
    for seed in 0..4 {
        let plain = Scenario::plain(seed, 4, Faults::NONE, LOAD);
        let report = Scenario { overruns: true, ..plain }.run();
        let report = report.unwrap_or_else(|why| panic!("{why}"));
        let again = report.stats.ordered_retransmitted + report.stats.bulk_retransmitted;
        assert!(again > 0, "{:?}", report.stats);
    }
}

/// The ports of the dead refuse what is sent to them, and some know of a death by themselves: all who
/// live go on, and with who comes in the place of the dead.
#[test]
fn closed_ports_tell_of_the_dead_alone() {
    let ms = Duration::from_millis;
    let death = |after, node| Mishap { after, lasts: ms(50), what: What::Death { node } };
    for seed in 0..4 {
        let scenario = Scenario {
            mishaps: vec![death(ms(2), 0), death(ms(20), 1), death(ms(21), 0)],
            ..Scenario::plain(seed, 4, Faults { drop: 0.05, ..Faults::NONE }, LOAD)
        };
        let run = scenario.run();
        assert!(run.is_ok(), "{run:?}");
    }
}

#[test]
fn a_panic_is_a_failure_of_its_seed() {
    let mut scenario = Scenario::from_seed(3);
    scenario.load.len_max = u64::MAX;
    let why = scenario.run().expect_err("lengths overflow");
    assert!(why.starts_with("seed 3: panicked: "), "{why}");
}

#[test]
fn a_failure_is_shrunk_to_what_it_takes() {
    let mut scenario = Scenario::from_seed(2);
    scenario.load.messages_per_pair = 60;
    // No network carries messages when it loses all: that fails with any load.
    scenario.faults.drop = 1.0;
    let why = scenario.run().expect_err("nothing can arrive");
    let (options, _) = scenario.shrink(why, || true);
    assert!(options.contains("--endpoints 2 --messages 1"), "{options}");
    assert!(!options.contains("drop"), "{options}");
}

/// Found by the end-to-end tests under faults: a round trip was once taken from packets whose own
/// acknowledgement had been lost. It held the probe timeout, which the next timeout was made from, and
/// what takes 0.3 s of virtual time took 25 s.
#[test]
fn lost_acknowledgements_are_not_taken_for_a_long_way() {
    let faults = Faults { drop: 0.05, duplicate: 0.05, reorder: 0.05, ..Faults::NONE };
    for seed in 0..2 {
        let report = run(seed, 2, faults, Load { messages_per_pair: 600, len_max: 4 << 20 });
        assert!(report.elapsed < Duration::from_secs(3), "{:?}", report.elapsed);
    }
}
