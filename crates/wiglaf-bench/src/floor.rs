//! The floor under every transport: what a bare link does between two nodes,
//! with no protocol and no MPI on top.
//!
//! A floor is measured by a command that prints one JSON object per line:
//!
//! ```json
//! {"link":"packet","len":8,"round_trip_ns":[[4100,17],[4200,5]]}
//! ```
//!
//! `round_trip_ns` lists `[nanoseconds, times]` pairs. Further members are
//! ignored.

use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::launch::capture;
use crate::stats::{Samples, Summary};

/// A command that measures one floor.
#[derive(Debug)]
pub struct FloorCommand {
    /// What it measures, for progress lines and errors.
    pub link: String,
    /// The command.
    pub command: Command,
}

/// What a bare link did with messages of one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Which link.
    pub link: String,
    /// Bytes a message.
    pub len: u64,
    /// Half a round trip.
    pub half_round_trip: Summary,
}

#[derive(Deserialize)]
struct Line {
    link: String,
    len: u64,
    round_trip_ns: Vec<(u64, u64)>,
}

/// Runs one floor command.
///
/// # Errors
/// When it fails or prints something else.
pub fn measure(floor: FloorCommand, time_max: Duration) -> Result<Vec<Floor>> {
    let what = format!("the floor of link {}", floor.link);
    let fail = |detail: String| BenchError::Run { what: what.clone(), detail };
    let output = capture(floor.command, time_max).map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(fail(text.lines().last().unwrap_or("no message").to_owned()));
    }
    parse(&what, &String::from_utf8_lossy(&output.stdout))
}

fn parse(what: &str, text: &str) -> Result<Vec<Floor>> {
    let bad = |detail: String| BenchError::Output { what: what.to_owned(), detail };
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| {
            let line: Line = serde_json::from_str(line).map_err(|e| bad(e.to_string()))?;
            let half_round_trip = Samples::from_pairs(line.round_trip_ns)
                .summary(0.5)
                .ok_or_else(|| bad(format!("no samples for {} bytes", line.len)))?;
            Ok(Floor { link: line.link, len: line.len, half_round_trip })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_read_and_halved() {
        let text = "noise\n{\"link\":\"udp\",\"len\":8,\"round_trip_ns\":[[8000,3]],\"more\":1}\n";
        let floors = parse("test", text).unwrap();
        assert_eq!(floors.len(), 1);
        assert_eq!((floors[0].link.as_str(), floors[0].half_round_trip.p50_us), ("udp", 4.0));
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["{\"link\":3}", "{", "{\"link\":\"a\",\"len\":1,\"round_trip_ns\":[]}"] {
            assert!(parse("test", text).is_err(), "{text}");
        }
    }
}
