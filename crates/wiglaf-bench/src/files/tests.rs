use super::*;

/// A made-up way: round figures that nobody measured.
pub(crate) fn contender(way: Way, megabytes_per_s: f64, call_us: u64) -> Contender {
    let mut found = BTreeMap::new();
    for row in [Row::Write, Row::Read, Row::Read4K, Row::SmallFiles] {
        let calls = Samples::from_pairs([(call_us * 1000, 196), (call_us * 4000, 4)]);
        let bytes = 64_000_000;
        let whole_s = [1.0, 1.5, 0.5].map(|x| x * 64.0 / megabytes_per_s).to_vec();
        found.insert(row, Found { bytes, calls, whole_s });
    }
    let settings = Settings::from([("caches".to_owned(), "nothing is kept".to_owned())]);
    let label = way.label().to_owned();
    Contender { way, label, settings, evidence: None, points: points(found) }
}

#[test]
fn the_median_round_is_the_rate() {
    let one = contender(Way::Wiglaf, 2000.0, 9);
    let write = one.at(Row::Write).unwrap();
    assert!((write.megabytes_per_s - 2000.0).abs() < 1e-6);
    assert_eq!(
        (write.call.p50_us, write.call.p99_us, write.round_whole_s.len()),
        (9.0, Some(36.0), 3)
    );
}

#[test]
fn the_best_sshfs_is_what_counts() {
    let all = [
        contender(Way::Tcp, 2000.0, 12),
        contender(Way::Sshfs, 300.0, 100),
        contender(Way::SshfsFast, 800.0, 110),
        contender(Way::Wiglaf, 1800.0, 10),
    ];
    let found = compare(&all);
    let at = |row, other| {
        let one = found.iter().find(|c| c.row == row && c.other == other);
        one.map(|c| (c.ratio, c.p99_time_ratio, c.is_met))
    };
    assert_eq!(at(Row::Read4K, Way::Sshfs), Some((0.1, Some(0.1), true)));
    assert_eq!(at(Row::Write, Way::SshfsFast), Some((2.25, Some(10.0 / 110.0), true)));
    assert_eq!(at(Row::Write, Way::Sshfs), None);
    assert_eq!(at(Row::Read, Way::Tcp), Some((0.9, Some(10.0 / 12.0), false)));
    // The mount and NFS were not there.
    assert_eq!(found.len(), 5);
}

#[test]
fn output_is_read_and_garbage_refused() {
    let text =
        "a banner\n{\"row\":\"read-4k\",\"bytes\":4096,\"whole_ns\":9000,\"call_ns\":[[9000,1]]}\n";
    let lines = parse(text).unwrap();
    assert_eq!((lines.len(), lines[0].row, lines[0].whole_ns), (1, Row::Read4K, 9000));
    for bad in [
        "{\"row\":\"fly\",\"bytes\":1,\"whole_ns\":1,\"call_ns\":[[1,1]]}",
        "{\"row\":\"read\",\"bytes\":1,\"whole_ns\":1,\"call_ns\":[]}",
        "{\"row\":\"read\",\"bytes\":1,\"whole_ns\":0,\"call_ns\":[[1,1]]}",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
