//! A host that hangs is switched off and on, once, by its BMC: the service on the head ([`crate::owner`]) does it, as the
//! user who set up, with that user's cluster file and passwords. It takes jobs again when it has looked at itself and is
//! well ([`crate::node`]), and else says why not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::shell::quoted;

use crate::node::{CYCLED, REASON, update};
use crate::outside::ask;

/// Slurm's words for a node that has been silent for too long.
const SILENT: &str = "Not responding";
/// When each was switched, in seconds since 1970; a start of the head forgets it.
const TRIED: &str = "/run/wiglaf-batch/cycled.json";
/// How often Slurm is asked.
const PAUSE: Duration = Duration::from_secs(10);
/// A host that hangs again within this many seconds is left to people: switching it does not help.
const AGAIN_S: u64 = 86_400;
/// A PC that has not started after so many seconds does not: firmware that counts its memory takes minutes.
const START_S: u64 = 900;
/// Longer no command about power takes, in seconds.
const PATIENCE_S: &str = "300";

/// Which hosts are switched, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revival {
    /// Whose cluster file it is.
    pub(crate) user: String,
    pub(crate) file: PathBuf,
    /// Wiglaf's.
    pub(crate) program: PathBuf,
    /// Those with a BMC.
    pub(crate) nodes: Vec<String>,
}

/// In words.
pub(crate) fn told(revival: &Revival) -> String {
    format!(
        "switch {} off and on, once a day at most, when they hang, by their BMCs, as {} with {}",
        revival.nodes.join(", "),
        revival.user,
        revival.file.display()
    )
}

/// What is known of a host that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing.
    Nothing,
    /// It has no power, or was not to be switched: nobody's doing of ours.
    Left,
    /// It was switched so many seconds ago.
    Switched(u64),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Nothing,
    /// It answers: what is known of it in this life of the service is void.
    Forget,
    Revive,
    /// It takes no further jobs, for this reason.
    Drain(String),
}

fn decide(state: &str, reason: &str, known: Known) -> Step {
    let is_silent = state.ends_with('*') || state.starts_with("down");
    if !is_silent {
        return if known == Known::Left { Step::Forget } else { Step::Nothing };
    }
    match known {
        Known::Left => Step::Nothing,
        // Whoever has drained it has a reason to.
        Known::Nothing if state.starts_with("down") && reason.starts_with(SILENT) => Step::Revive,
        Known::Nothing => Step::Nothing,
        Known::Switched(ago) if state.starts_with("down") && reason.starts_with(SILENT) => {
            Step::Drain(format!(
                "{REASON}it hangs again, {} min after it was switched off and on; look at it",
                ago / 60
            ))
        }
        Known::Switched(ago) if reason == CYCLED && ago > START_S => {
            Step::Drain(format!("{CYCLED}, and has not come back; look at its screen"))
        }
        Known::Switched(_) => Step::Nothing,
    }
}

/// What was done to hosts.
#[derive(Debug, Default)]
pub(crate) struct Reviver {
    asked: Option<Instant>,
    left: Vec<String>,
    /// One at a time.
    running: Option<(String, JoinHandle<Result<bool>>)>,
}

impl Reviver {
    /// Does what is to be done now, and waits for nothing long.
    pub(crate) fn round(&mut self, revival: &Revival) -> Result<()> {
        if let Some((node, work)) = self.running.take_if(|(_, work)| work.is_finished()) {
            let done = work.join().unwrap_or_else(|_| Err(Error::new("a thread panicked")));
            if !done.as_ref().is_ok_and(|is_switched| *is_switched) {
                let mut tried = load();
                tried.remove(&node);
                self.left.push(node);
                store(&tried)?;
            }
            done?;
        }
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) || self.running.is_some() {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let nodes = revival.nodes.join(",");
        let said = ask("sinfo", &["-h", "-N", "-a", "-n", &nodes, "-o", "%N|%T|%E"])?;
        let (mut tried, now) = (load(), now_s());
        tried.retain(|_, since| now.saturating_sub(*since) < AGAIN_S);
        for line in said.lines() {
            let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
            let [node, state, reason] = parts[..] else { continue };
            let known = match tried.get(node) {
                _ if self.left.iter().any(|left| left == node) => Known::Left,
                Some(since) => Known::Switched(now.saturating_sub(*since)),
                None => Known::Nothing,
            };
            match decide(state, reason, known) {
                Step::Nothing => {}
                Step::Forget => self.left.retain(|left| left != node),
                Step::Drain(why) => update(node, "DRAIN", Some(&why))?,
                Step::Revive => {
                    tried.insert(node.to_owned(), now);
                    let (revival, name) = (revival.clone(), node.to_owned());
                    store(&tried)?;
                    let work = thread::spawn(move || revive(&revival, &name));
                    self.running = Some((node.to_owned(), work));
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Switches a host off and on, if it has power and does not answer. Says whether it was switched.
fn revive(revival: &Revival, node: &str) -> Result<bool> {
    let said = power(revival, &format!("status -w {} --json", quoted(node)))?;
    let state = serde_json::from_str::<serde_json::Value>(&said).ok();
    if state.as_ref().and_then(|said| said[0]["state"].as_str()) != Some("on") {
        // Somebody has switched it off, or its cable is out of the BMC, too.
        return Ok(false);
    }
    // Before it starts: it must not take a job before it has looked at itself.
    update(node, "DRAIN", Some(CYCLED))?;
    let cycled = power(revival, &format!("cycle -w {} --if-silent", quoted(node)));
    cycled.map(|_| true).or_else(|error| {
        let why = format!("{REASON}it hangs, and was not switched off and on: {error}");
        update(node, "DRAIN", Some(&why)).map(|()| false)
    })
}

/// What `wiglaf power` prints, run by the user.
fn power(revival: &Revival, words: &str) -> Result<String> {
    let (program, file) = (&revival.program, &revival.file);
    let [program, file] = [program, file].map(|path| quoted(&path.display().to_string()));
    let line = format!("exec {program} --file {file} power {words}");
    let mut command = Command::new("timeout");
    command.args([PATIENCE_S, "runuser", "-l", &revival.user, "-c", &line]);
    let output = command.output().cannot(|| "start runuser".to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        // Slurm's reasons are one line each.
        false => Err(Error::new(said.lines().next_back().unwrap_or("it says nothing").to_owned())),
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

fn load() -> BTreeMap<String, u64> {
    let text = fs::read_to_string(TRIED).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn store(tried: &BTreeMap<String, u64>) -> Result<()> {
    let text =
        serde_json::to_string(tried).cannot(|| "note which hosts were switched".to_owned())?;
    let path = Path::new(TRIED);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .cannot(|| format!("write {TRIED}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_that_hangs_is_switched_once_and_then_left_to_people() {
        let silent = "Not responding";
        for (state, reason, known, step) in [
            ("idle", "none", Known::Nothing, Step::Nothing),
            ("idle*", "none", Known::Nothing, Step::Nothing),
            ("down*", silent, Known::Nothing, Step::Revive),
            ("down", silent, Known::Nothing, Step::Revive),
            ("down*", "fan", Known::Nothing, Step::Nothing),
            ("drained*", silent, Known::Nothing, Step::Nothing),
            ("down*", silent, Known::Left, Step::Nothing),
            ("idle", "none", Known::Left, Step::Forget),
            ("drained*", CYCLED, Known::Switched(60), Step::Nothing),
            ("idle", "none", Known::Switched(60), Step::Nothing),
        ] {
            assert_eq!(decide(state, reason, known), step, "{state} {reason} {known:?}");
        }
        let Step::Drain(why) = decide("drained*", CYCLED, Known::Switched(START_S + 1)) else {
            panic!()
        };
        assert!(why.contains("has not come back"), "{why}");
        let Step::Drain(why) = decide("down*", silent, Known::Switched(3600)) else { panic!() };
        assert!(why.contains("it hangs again, 60 min after"), "{why}");
    }
}
