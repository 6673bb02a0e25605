//! Small programs whose answer is a fact: run with an end, without a terminal.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing that is asked here says more, in bytes.
const OUTPUT_LEN_MAX: u64 = 1 << 20;
/// How long one may take.
const PATIENCE: Duration = Duration::from_millis(1200);

/// What a program prints, if it ends well and in time.
pub(super) fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let child = Command::new(program)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|why| format!("{program} cannot be started: {why}"))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(format!("{program} has no output"));
    };
    let text = super::later(move || {
        let mut text = Vec::new();
        let _ = stdout.take(OUTPUT_LEN_MAX).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let text = super::wait(&text, Instant::now() + PATIENCE);
    if text.is_none() {
        let _ = child.kill();
    }
    let status = child.wait();
    match (text, status) {
        (Some(text), Ok(status)) if status.success() || !text.is_empty() => Ok(text),
        (Some(_), Ok(status)) => Err(format!("{program} ended with {status}")),
        (Some(_), Err(why)) => Err(format!("{program}: {why}")),
        (None, _) => Err(format!("{program} did not end in time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_hangs_is_a_reason() {
        assert_eq!(output("echo", &["a b"]).as_deref(), Ok("a b\n"));
        assert!(output("false", &[]).unwrap_err().contains("false ended with"));
        assert!(output("wiglaf-no-such-program", &[]).unwrap_err().contains("cannot be started"));
        assert!(output("sleep", &["60"]).unwrap_err().contains("did not end in time"));
    }
}
