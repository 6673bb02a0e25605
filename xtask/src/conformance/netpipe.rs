//! NetPIPE: ping-pongs of every length, each byte of which is checked.

use std::time::{Duration, Instant};

use super::cluster::Ended;
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, timed, version};

const LIMIT: Duration = Duration::from_secs(120);
/// What it says of each length whose bytes were all right.
const PASSED: &str = "Integrity check passed";
/// The transports, as `wiglaf run` names them, the rival last.
const TRANSPORTS: [&str; 2] = ["wiglaf", "tcp"];

/// Program and options: `-i` checks every byte, the others are ways to send and to receive.
const RUNS: [&str; 9] = [
    "NPopenmpi -i -n 20 -u 8388608",
    "NPopenmpi -i -n 20 -u 8388608 -a",
    "NPopenmpi -n 20 -u 1048576 -B",
    "NPopenmpi -i -n 20 -u 8388608 -S",
    "NPopenmpi -i -n 20 -u 8388608 -z",
    "NPopenmpi -i -n 20 -u 8388608 -a -2",
    "NPopenmpi -n 50 -u 8388608",
    "NPopenmpi -s -n 50 -u 8388608",
    "NPopenmpi2 -i -n 20 -u 1048576",
];

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let mut rows = Vec::new();
    for name in RUNS.into_iter().filter(|run| context.wants(run)) {
        let mut cells = Vec::new();
        for transport in TRANSPORTS {
            let began = Instant::now();
            let argv: Vec<String> = name.split(' ').map(str::to_owned).collect();
            let log = format!("netpipe/{transport}/{}", name.replace(' ', ""));
            let options = ["-n", "2", "--transport", transport];
            let ended = context.cluster.run(&log, &options, &[], &argv, LIMIT)?;
            let verdict = verdict(&ended, argv.iter().any(|word| word == "-i"));
            cells.push(timed(name, transport, verdict, began));
        }
        rows.push(Row { name: name.to_owned(), cells });
    }
    let about = vec![
        format!("NetPIPE {}, one rank on each of two nodes.", version("netpipe-openmpi")?),
        "`-i` makes it compare every byte; a test passes if every length did.".to_owned(),
    ];
    let columns = vec![Column::ours("wiglaf", Judge::Rival(1)), Column::rival("tcp")];
    Ok(Some(Findings { about, columns, rows }))
}

fn verdict(ended: &Ended, checks: bool) -> Verdict {
    if !ended.succeeded() {
        return Verdict::Fail(ended.reason());
    }
    // Lines of two ranks may run into each other, so words are counted, not lines.
    let lengths = ended.text.matches("times -->").count();
    let good = ended.text.matches(if checks { PASSED } else { "Mbps in" }).count();
    if lengths == 0 || good != lengths || ended.text.contains("check failed") {
        return Verdict::Fail(format!("{good} of {lengths} lengths are well"));
    }
    Verdict::Pass(format!("{lengths} lengths"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_must_have_been_checked() {
        let verdict = |text: &str| verdict(&Ended { status: Some(0), text: text.into() }, true);
        let good = "  0: 1 bytes 20 times -->  Integrity check passed\n";
        assert_eq!(verdict(&good.repeat(2)), Verdict::Pass("2 lengths".into()));
        assert!(
            !verdict(&format!("{good} 1: 2 bytes 20 times -->  Integrity check failed")).passed()
        );
        assert!(!verdict("").passed());
    }
}
