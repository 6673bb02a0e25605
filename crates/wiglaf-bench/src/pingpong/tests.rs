use super::*;

fn contender(transport: Transport, p50_us: &[(u64, f64)]) -> Contender {
    let points = p50_us.iter().map(|&(len, us)| {
        let samples = Samples::from_pairs([((us * 2000.0) as u64, 1)]);
        Point {
            len,
            half_round_trip: samples.summary(0.5).unwrap(),
            megabytes_per_s: len as f64 / us,
            round_p50_us: vec![us],
        }
    });
    Contender {
        transport,
        label: transport.label().to_owned(),
        settings: Settings::new(),
        evidence: None,
        points: points.collect(),
    }
}

#[test]
fn lens_cover_the_range_once_each_and_in_order() {
    let lens = all_lens();
    assert!(lens.is_sorted_by(|a, b| a < b));
    assert_eq!((lens[0], lens[1], *lens.last().unwrap()), (0, 1, 4 << 20));
    for power in 0..=22 {
        assert!(lens.contains(&(1 << power)));
    }
    assert!(lens.contains(&1536));
}

#[test]
fn each_length_has_its_own_best_rival() {
    let all = [
        contender(Transport::Wiglaf, &[(8, 4.0), (1 << 20, 500.0)]),
        contender(Transport::Tcp, &[(8, 8.0), (1 << 20, 400.0)]),
        contender(Transport::Ucx, &[(8, 6.0), (1 << 20, 600.0)]),
    ];
    let found = compare(&all);
    assert_eq!((found[0].best_rival, found[0].time_ratio), (Transport::Ucx, 4.0 / 6.0));
    assert_eq!((found[1].best_rival, found[1].bandwidth_ratio), (Transport::Tcp, 0.8));
}

#[test]
fn without_wiglaf_or_rivals_nothing_is_compared() {
    let rival = contender(Transport::Tcp, &[(8, 8.0)]);
    let ours = contender(Transport::Wiglaf, &[(8, 4.0)]);
    assert_eq!(compare(&[rival]), []);
    assert_eq!(compare(&[ours]), []);
}

/// A contender of these rounds: nanoseconds of a round trip, and how often.
fn of_rounds(transport: Transport, rounds: &[(u64, u64)]) -> Contender {
    let (settings, evidence, lens) = (Settings::new(), None, BTreeMap::new());
    let mut entry = Entry { transport, settings, evidence, lens };
    for round in rounds {
        entry.take(BTreeMap::from([(8, Samples::from_pairs([*round]))]));
    }
    entry.finish()
}

#[test]
fn a_fast_round_weighs_no_more_than_a_slow_one() {
    let done = of_rounds(Transport::Tcp, &[(8_000, 9000), (12_000, 300), (14_000, 200)]);
    let point = done.at(8).unwrap();
    assert_eq!(point.round_p50_us, [4.0, 6.0, 7.0]);
    let trip = point.half_round_trip;
    assert_eq!((trip.samples, trip.p50_us, trip.p99_us), (9500, 6.0, Some(6.0)));
}

#[test]
fn ratios_are_those_of_the_rounds_and_not_of_two_medians() {
    let ours = of_rounds(Transport::Wiglaf, &[(2_000, 9), (10_000, 3), (12_000, 3)]);
    let theirs = of_rounds(Transport::Tcp, &[(4_000, 9), (10_000, 3), (24_000, 3)]);
    assert_eq!(compare(&[ours, theirs])[0].time_ratio, 0.5);
}

/// By its median TCP is the best, but in two of three rounds Wiglaf is slower than UCX.
#[test]
fn no_rival_does_better_than_the_best_one() {
    let ours = of_rounds(Transport::Wiglaf, &[(4_000, 9), (4_000, 9), (12_000, 9)]);
    let by_median = of_rounds(Transport::Tcp, &[(5_000, 9), (5_000, 9), (5_000, 9)]);
    let in_rounds = of_rounds(Transport::Ucx, &[(2_000, 9), (8_000, 9), (9_000, 9)]);
    let all = [ours, by_median, in_rounds];
    let found = &compare(&all)[0];
    assert_eq!((found.best_rival, found.time_ratio), (Transport::Ucx, 12.0 / 9.0));
    assert_eq!(best_rival(&all[1..], 8).unwrap().0, Transport::Tcp);
}

#[test]
fn output_is_read_and_garbage_refused() {
    let text = "a banner\n{\"len\":8,\"round_trip_ns\":[[6000,2],[7000,1]]}\n";
    assert_eq!(parse(text).unwrap()[&8], Samples::from_pairs([(6000, 2), (7000, 1)]));
    for bad in ["{\"len\":8}", "{\"len\":8,\"round_trip_ns\":[]}", "{\"len\":-8"] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
