//! The floor under every transport: what a bare link does between two nodes,
//! with no protocol and no MPI on top.
//!
//! A floor is measured by a command that prints one [`Floor`] as JSON on one
//! line; other lines are ignored:
//!
//! ```json
//! {"link":"packet","latency":[{"len":8,"p50_us":2.1,"p99_us":2.5}],"stream_megabytes_per_s":4600.0}
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::launch::{FloorCommand, capture};

/// What a bare link does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Which link.
    pub link: String,
    /// Half round trips of single frames, in order of length.
    pub latency: Vec<FloorLatency>,
    /// What arrives of a stream, in 10^6 bytes a second.
    pub stream_megabytes_per_s: Option<f64>,
    /// What the interface is: name, driver, MTU, kernel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub place: BTreeMap<String, String>,
}

/// Half a round trip of frames of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FloorLatency {
    /// Bytes a frame.
    pub len: u64,
    /// The median.
    pub p50_us: f64,
    /// Only one in a hundred is larger.
    pub p99_us: f64,
}

/// Runs one floor command.
///
/// # Errors
/// When it fails, prints something else, or the user interrupts.
pub fn measure(
    floor: FloorCommand,
    time_max: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Floor> {
    let what = format!("the floor of link {}", floor.link);
    let fail = |detail: String| BenchError::Run { what: what.clone(), detail };
    let output =
        capture(floor.command, time_max, is_interrupted).map_err(|e| fail(e.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(fail(text.lines().last().unwrap_or("no message").to_owned()));
    }
    parse(&what, &String::from_utf8_lossy(&output.stdout))
}

fn parse(what: &str, text: &str) -> Result<Floor> {
    let bad = |detail: String| BenchError::Output { what: what.to_owned(), detail };
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| bad("no result line".to_owned()))?;
    serde_json::from_str(line).map_err(|e| bad(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn shell(script: &str) -> FloorCommand {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        FloorCommand { link: "udp".to_owned(), command }
    }

    #[test]
    fn a_floor_is_read_among_other_lines() {
        let floor = measure(
            shell(
                r#"echo noise; echo '{"link":"udp","latency":[{"len":8,"p50_us":4,"p99_us":5}]}'"#,
            ),
            Duration::from_secs(20),
            &|| false,
        );
        let floor = floor.unwrap();
        assert_eq!((floor.link.as_str(), floor.stream_megabytes_per_s), ("udp", None));
        assert_eq!(floor.latency, [FloorLatency { len: 8, p50_us: 4.0, p99_us: 5.0 }]);
    }

    #[test]
    fn a_failure_carries_the_last_words() {
        let error =
            measure(shell("echo no such link >&2; exit 1"), Duration::from_secs(20), &|| false);
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "the floor of link udp failed: no such link");
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "{", "{\"link\":3}", "{\"link\":\"a\"}"] {
            assert!(parse("test", text).is_err(), "{text}");
        }
    }
}
