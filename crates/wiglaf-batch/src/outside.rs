//! Programs of others, which end in time.

use std::process::Command;

use wiglaf_base::error::{Context, Error, Result};

/// Longer no program of others is waited for, in seconds.
const PATIENCE_S: &str = "20";

/// What a program prints, as an error where it fails.
pub(crate) fn ask(program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new("timeout");
    command.args([PATIENCE_S, program]).args(words).env("LC_ALL", "C");
    let output = command.output().cannot(|| format!("start {program}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Error::new(format!(
            "`{program} {}` fails: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
