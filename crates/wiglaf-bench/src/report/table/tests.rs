use super::*;
use crate::facts::Facts;
use crate::floor::FloorLatency;
use crate::launch::Settings;
use crate::pingpong::{Contender, SCHEMA, compare};
use crate::stats::Samples;
use std::collections::BTreeMap;

/// A made-up result: round figures that nobody measured.
pub(in crate::report) fn sample_report() -> Report {
    let curve = |transport: Transport, start_us: f64, bytes_per_us: f64| {
        let points = [0u64, 8, 1024, 65_536, 1 << 20, 4 << 20].map(|len| {
            let us = start_us + len as f64 / bytes_per_us;
            let ns = (us * 2000.0) as u64;
            let samples =
                Samples::from_pairs([(ns, 196), (ns * 3, if len > 1 << 20 { 2 } else { 4 })]);
            let half_round_trip = samples.summary(0.5).unwrap();
            let megabytes_per_s = len as f64 / half_round_trip.p50_us;
            Point { len, half_round_trip, megabytes_per_s, round_p50_us: vec![us] }
        });
        Contender {
            transport,
            label: transport.label().to_owned(),
            settings: Settings::from([("OMPI_MCA_pml".to_owned(), "cm".to_owned())]),
            evidence: Some("mtl:ofi:prov: wiglaf".to_owned()),
            points: points.to_vec(),
        }
    };
    let contenders = vec![
        curve(Transport::Wiglaf, 4.0, 2500.0),
        curve(Transport::Tcp, 8.0, 2000.0),
        curve(Transport::Ucx, 6.0, 1500.0),
    ];
    Report {
        schema: SCHEMA.to_owned(),
        facts: sample_facts(),
        rounds: 4,
        budget_ms: 60,
        comparison: compare(&contenders),
        contenders,
        absent: vec![Absent {
            transport: Transport::OfiTcp,
            reason: "pingpong over libfabric TCP failed: a long story about a provider that was \
                     not found anywhere"
                .to_owned(),
        }],
        floors: vec![Floor {
            link: "packet".to_owned(),
            latency: [(8, 2.1), (1400, 2.6)]
                .map(|(len, p50_us)| FloorLatency { len, p50_us, p99_us: p50_us + 0.5 })
                .to_vec(),
            stream_megabytes_per_s: Some(4600.0),
            place: std::collections::BTreeMap::new(),
        }],
        floors_absent: Vec::new(),
        active_messages: vec![ActiveMessages {
            link: "packet".to_owned(),
            p50_us: vec![2.5, 2.6, 2.4],
            p99_us: vec![3.0, 3.5, 3.2],
            bare_p50_us: vec![2.0, 2.0, 2.0],
            bare_p99_us: vec![2.4, 2.4, 2.6],
        }],
    }
}

pub(in crate::report) fn sample_facts() -> Facts {
    Facts {
        date: "2026-01-31T12:00:00Z".to_owned(),
        command_line: vec!["wiglaf".to_owned(), "bench".to_owned()],
        wiglaf_version: "0.1.0".to_owned(),
        cores: 2,
        cpu: "a processor".to_owned(),
        kernel: "Linux 6.1".to_owned(),
        system: "Debian".to_owned(),
        versions: BTreeMap::from([("mpi".to_owned(), Some("4.1.4".to_owned()))]),
        nodes: [
            ("mtu", "1500"),
            ("cluster", "node[1-2], wire bridge, rate unlimited, mtu 1500"),
            ("core of each node", "0, 1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    }
}

/// Compares with a committed file; `WIGLAF_BLESS=1` writes it anew.
pub(in crate::report) fn assert_golden(name: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WIGLAF_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} differs; WIGLAF_BLESS=1 accepts it", path.display());
}

pub(in crate::report) fn assert_narrow(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn pingpong_for_a_terminal() {
    let text = pingpong_table(&sample_report());
    assert_narrow(&text);
    assert_golden("pingpong.txt", &text);
}

#[test]
fn pingpong_for_a_document() {
    let text = pingpong_markdown(&sample_report());
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let bars: Vec<usize> = rows.map(|l| l.matches('|').count()).collect();
    assert!(bars.iter().all(|b| *b == bars[0]), "{bars:?}");
    assert_golden("pingpong.md", &text);
}

#[test]
fn a_document_has_all_sizes_and_a_terminal_says_what_it_leaves_out() {
    let mut report = sample_report();
    let point = report.contenders[0].points[1].clone();
    let points = pingpong::all_lens().into_iter().map(|len| Point { len, ..point.clone() });
    report.contenders[0].points = points.collect();
    let rows = pingpong_markdown(&report);
    assert_eq!(rows.lines().filter(|line| line.starts_with("| ")).count(), 1 + 40);
    assert!(rows.contains("| 1.5 KiB |"), "{rows}");
    let text = pingpong_table(&report);
    assert_narrow(&text);
    assert!(!text.contains("1.5 KiB") && text.contains("16 of 40 sizes are left out"), "{text}");
    assert!(!pingpong_table(&sample_report()).contains("left out"));
}

#[test]
fn who_is_absent_is_named_in_every_document() {
    let absent = sample_report().absent;
    let words = "libfabric TCP did not take part: pingpong over libfabric TCP failed";
    assert!(pingpong_markdown(&sample_report()).contains(words));
    assert!(
        bandwidth_markdown(&bandwidth::Report { absent, ..sample_bandwidth() }).contains(words)
    );
}

#[test]
fn without_wiglaf_the_rivals_are_still_shown() {
    let mut report = sample_report();
    report.contenders.remove(0);
    report.comparison.clear();
    let text = pingpong_table(&report);
    assert_narrow(&text);
    let row = text.lines().find(|l| l.trim_start().starts_with("8 B")).unwrap();
    assert!(row.contains("UCX TCP") && row.ends_with('-'), "{row}");
}

#[test]
fn the_figure_of_a_short_message_says_what_a_bare_frame_takes() {
    let figures = crate::figures::of_pingpong(&sample_report(), false);
    assert_eq!(figures[0].detail, "of UCX TCP; a bare frame over packet is 0.33 of it");
}

#[test]
fn ring_for_a_terminal() {
    let contender = |transport: Transport, us: u64| ring::Contender {
        transport,
        label: transport.label().to_owned(),
        settings: Settings::new(),
        step: Samples::from_pairs([(us * 1000, 10)]).summary(1.0).unwrap(),
        round_mean_us: vec![us as f64],
    };
    let report = ring::Report {
        schema: ring::SCHEMA.to_owned(),
        facts: sample_facts(),
        ranks: 4,
        nodes: 4,
        len: 8,
        contenders: vec![contender(Transport::Wiglaf, 15), contender(Transport::Tcp, 50)],
        absent: Vec::new(),
    };
    assert_eq!(report.ratio_to(Transport::Tcp), Some(0.3));
    let text = ring_table(&report);
    assert_narrow(&text);
    assert_golden("ring.txt", &text);
}

/// As made up as [`sample_report`].
pub(in crate::report) fn sample_bandwidth() -> bandwidth::Report {
    let contender = |transport: Transport, bytes_per_us: f64| {
        let lens = [8u64, 1 << 20, 4 << 20].into_iter();
        let points = lens.flat_map(|len| [(len, Ways::One), (len, Ways::Both)]);
        let point = |(len, ways): (u64, Ways)| {
            let messages = (64 * ways.count()) as f64;
            let us = messages * (0.5 + len as f64 / bytes_per_us);
            let samples = Samples::from_pairs([
                ((us * 1e3) as u64, 196),
                ((us * 2e3) as u64, if len > 1 << 20 { 2 } else { 4 }),
            ]);
            let window_time = samples.summary(1.0).unwrap();
            bandwidth::Point {
                len,
                ways,
                window_time,
                megabytes_per_s: messages * len as f64 / window_time.p50_us,
                messages_per_s: messages * 1e6 / window_time.p50_us,
                round_megabytes_per_s: vec![bytes_per_us],
                round_p50_us: vec![window_time.p50_us],
                round_p99_us: window_time.p99_us.into_iter().collect(),
            }
        };
        bandwidth::Contender {
            transport,
            label: transport.label().to_owned(),
            settings: Settings::new(),
            evidence: None,
            points: points.map(point).collect(),
        }
    };
    let contenders =
        vec![contender(Transport::Wiglaf, 4000.0), contender(Transport::OfiTcp, 2000.0)];
    bandwidth::Report {
        schema: bandwidth::SCHEMA.to_owned(),
        facts: sample_facts(),
        rounds: 4,
        budget_ms: 60,
        window: 64,
        comparison: bandwidth::compare(&contenders),
        contenders,
        absent: Vec::new(),
    }
}

#[test]
fn bandwidth_for_a_terminal_and_a_document() {
    let report = sample_bandwidth();
    let text = bandwidth_table(&report);
    assert_narrow(&text);
    assert_golden("bandwidth.txt", &text);
    assert_golden("bandwidth.md", &bandwidth_markdown(&report));
    let mut rivals = report;
    rivals.contenders.remove(0);
    rivals.comparison.clear();
    assert!(bandwidth_table(&rivals).lines().nth(4).unwrap().ends_with('-'));
}

#[test]
fn lengths_in_words() {
    let words = [0, 8, 1400, 1024, 1536, 1 << 20, 3 << 19].map(length);
    assert_eq!(words, ["0 B", "8 B", "1400 B", "1 KiB", "1.5 KiB", "1 MiB", "1.5 MiB"]);
}

#[test]
fn reports_survive_the_trip_through_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.json");
    let report = sample_report();
    crate::report::write(&report, &path).unwrap();
    assert_eq!(crate::report::read::<Report>(&path).unwrap(), report);
    std::fs::write(&path, "{\"schema\":").unwrap();
    let error = crate::report::read::<Report>(&path).unwrap_err().to_string();
    assert!(error.contains("r.json"), "{error}");
}
