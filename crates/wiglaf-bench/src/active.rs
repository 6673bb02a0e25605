//! Active messages beside the bare link that carries them: what the protocol
//! costs a short message, without MPI.
//!
//! In each round both are measured, one right after the other, so that a
//! machine that drifts does not decide between them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::floor::{self, FloorLatency};
use crate::launch::{ActiveCommands, Launcher};
use crate::stats::median;

/// Bytes of a message, and of the bare link's frame.
pub const LEN: u64 = 8;
const RUN_TIME_MAX: Duration = Duration::from_secs(60);

/// One link: half round trips of [`LEN`] bytes, one value for each round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActiveMessages {
    /// Which link.
    pub link: String,
    /// The median of active messages, in microseconds.
    pub p50_us: Vec<f64>,
    /// Only one in a hundred takes longer.
    pub p99_us: Vec<f64>,
    /// The median of frames over the bare link.
    pub bare_p50_us: Vec<f64>,
    /// Only one in a hundred takes longer.
    pub bare_p99_us: Vec<f64>,
}

impl ActiveMessages {
    /// The time of a message by that of a frame: the median of the rounds' ratios.
    pub fn ratio(&self) -> Option<f64> {
        let rounds = self.p50_us.iter().zip(&self.bare_p50_us);
        median(&rounds.map(|(messages, bare)| messages / bare).collect::<Vec<_>>())
    }
}

/// All links, while they are being measured.
#[derive(Debug, Default)]
pub(crate) struct ActiveRounds {
    pub(crate) found: Vec<ActiveMessages>,
    /// Links that failed, and why; they are not tried again.
    pub(crate) absent: Vec<String>,
    failed: Vec<String>,
}

impl ActiveRounds {
    /// Measures every link once more, now the one first and now the other.
    pub(crate) fn run(&mut self, launcher: &dyn Launcher, round: usize, progress: Progress<'_>) {
        for ActiveCommands { bare, messages } in launcher.active_messages() {
            let link = bare.link.clone();
            if self.failed.contains(&link) || launcher.is_interrupted() {
                continue;
            }
            progress(&format!("round {}: active messages over {link}", round + 1));
            let measure = |command| {
                let floor = floor::measure(command, RUN_TIME_MAX, &|| launcher.is_interrupted())?;
                let of_len = floor.latency.iter().find(|latency| latency.len == LEN).copied();
                of_len.ok_or_else(|| crate::BenchError::Output {
                    what: format!("the ping-pong over link {link}"),
                    detail: format!("nothing about {LEN} bytes"),
                })
            };
            let both = if round.is_multiple_of(2) {
                measure(bare).and_then(|bare| Ok((bare, measure(messages)?)))
            } else {
                measure(messages).and_then(|messages| Ok((measure(bare)?, messages)))
            };
            match both {
                Ok((bare, messages)) => self.take(&link, bare, messages),
                Err(error) => {
                    self.absent.push(format!("active messages over {link}: {error}"));
                    self.found.retain(|one| one.link != link);
                    self.failed.push(link);
                }
            }
        }
    }

    fn take(&mut self, link: &str, bare: FloorLatency, messages: FloorLatency) {
        let at = self.found.iter().position(|one| one.link == link).unwrap_or_else(|| {
            let (p50_us, p99_us, bare_p50_us, bare_p99_us) = Default::default();
            let link = link.to_owned();
            self.found.push(ActiveMessages { link, p50_us, p99_us, bare_p50_us, bare_p99_us });
            self.found.len() - 1
        });
        let one = &mut self.found[at];
        one.p50_us.push(messages.p50_us);
        one.p99_us.push(messages.p99_us);
        one.bare_p50_us.push(bare.p50_us);
        one.bare_p99_us.push(bare.p99_us);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::process::Command;

    use super::*;
    use crate::launch::FloorCommand;
    use crate::launch::{Job, Settings, Transport};

    /// Commands that print what they are told; the runs are real.
    struct Says(fn(usize) -> [f64; 2], std::cell::Cell<usize>);

    impl Launcher for Says {
        fn settings(&self, _: Transport) -> Result<Settings, String> {
            Err("nobody".to_owned())
        }
        fn command(&self, _: &Job<'_>) -> crate::Result<Command> {
            Err(crate::BenchError::NoContender("nobody".to_owned()))
        }
        fn node_count(&self) -> usize {
            2
        }
        fn facts(&self) -> BTreeMap<String, String> {
            BTreeMap::new()
        }
        fn active_messages(&self) -> Vec<ActiveCommands> {
            let round = self.1.replace(self.1.get() + 1);
            let [bare, messages] = (self.0)(round).map(|p50_us| {
                let mut command = Command::new("/bin/echo");
                command.arg(format!(
                    r#"{{"link":"udp","latency":[{{"len":8,"p50_us":{p50_us},"p99_us":9}}]}}"#
                ));
                FloorCommand { link: "udp".to_owned(), command }
            });
            vec![ActiveCommands { bare, messages }]
        }
    }

    fn rounds(says: fn(usize) -> [f64; 2]) -> ActiveRounds {
        let (launcher, mut rounds) = (Says(says, 0.into()), ActiveRounds::default());
        (0..3).for_each(|round| rounds.run(&launcher, round, &mut |_| {}));
        rounds
    }

    #[test]
    fn the_ratio_is_that_of_the_rounds_and_not_of_two_medians() {
        let done = rounds(|round| [[2.0, 2.5], [4.0, 5.0], [4.0, 4.0]][round]);
        assert_eq!(done.found[0].bare_p50_us, [2.0, 4.0, 4.0]);
        assert_eq!(done.found[0].p50_us, [2.5, 5.0, 4.0]);
        assert_eq!(done.found[0].ratio(), Some(1.25));
    }

    #[test]
    fn a_link_that_fails_is_absent_as_a_whole() {
        let done = rounds(|round| [1.0, if round == 1 { f64::NAN } else { 1.0 }]);
        assert!(done.found.is_empty());
        assert_eq!(done.absent.len(), 1, "{:?}", done.absent);
    }
}
