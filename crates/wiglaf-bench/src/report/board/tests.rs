use super::*;
use crate::launch::Transport;
use crate::outcome::{Better, Limit, Missing};
use crate::report::table::tests::{assert_golden, assert_narrow, sample_facts};
use crate::stats::Samples;

/// A made-up result: round figures that nobody measured.
pub(in crate::report) fn sample_outcome() -> Outcome {
    let entry = |transport: Transport, rounds: [f64; 3]| {
        Entry::of_rounds(transport.label(), Some(transport), rounds.to_vec())
    };
    let mut fast = Case::new("MTU 1500, one way", "goodput", "MB/s", Better::More);
    fast.limit = Some(Limit { name: "ceiling".to_owned(), value: 120.0 });
    fast.entries = vec![
        entry(Transport::Wiglaf, [114.0, 115.0, 60.0]),
        entry(Transport::Tcp, [118.0, 117.0, 119.0]),
        Entry::of_rounds("blocking sockets", None, vec![100.0]),
    ];
    fast.entries[0].times = Samples::from_pairs([(1000, 196), (9000, 4)]).summary(1.0);
    fast.entries[1].counters = [("segments_sent_again", 12.0), ("overruns", 0.0)]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    let mut alone = Case::new("nobody else", "step", "us", Better::Less);
    alone.entries = vec![entry(Transport::Wiglaf, [2.0, 3.0, 4.0])];
    let slow = entry(Transport::WiglafUdp, [15.0, 9.0, 15.0]);
    alone.entries.push(Entry { cut_off: vec![0, 2], ..slow });
    let below = Figure::ratio("the slow one", Wanted::AtMost(1.0), Some(0.201), String::new());
    let mut outcome = Outcome::new("shaped", "Goodput of something", sample_facts(), 3);
    outcome.figures = vec![
        Figure::ratio("one way", Wanted::AtLeast(0.97), fast.ratio_to_limit(), "of all".into()),
        Figure::ratio(
            "a figure with a name that is too long for the column that it stands in",
            Wanted::AtMost(0.5),
            Some(0.25),
            String::new(),
        ),
        Figure {
            name: "time".to_owned(),
            wanted: Wanted::AtMost(200.0),
            unit: "us".to_owned(),
            reached: None,
            is_below: false,
            detail: "of nobody".to_owned(),
        },
        Figure { is_below: true, ..below },
    ];
    outcome.cases = vec![fast, alone];
    outcome.absent = vec![Missing {
        who: "libfabric rxd".to_owned(),
        case: Some("nobody else".to_owned()),
        reason: "stream over libfabric rxd failed: not done after 60 s, ended".to_owned(),
    }];
    outcome.notes = vec!["a note".to_owned()];
    outcome
}

#[test]
fn cases_for_a_terminal_and_a_document() {
    let text = outcome_table(&sample_outcome());
    assert_narrow(&text);
    assert_golden("outcome.txt", &text);
    assert_golden("outcome.md", &outcome_markdown(&sample_outcome()));
}
