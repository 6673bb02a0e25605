//! Programs of others.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::program::find_tool;

/// As much of what a program complains about is kept, in bytes.
const COMPLAINTS_LEN_MAX: u64 = 1 << 20;

/// A program that is called by name, with where else root's programs are.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(find_tool(name).unwrap_or_else(|| name.into()));
    command
        .env("LC_ALL", "C")
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// Fails with the packages of those programs that are missing, each `(program, package)`.
pub(crate) fn check(programs: &[(&str, &str)]) -> Result<()> {
    let missing = programs.iter().filter(|(program, _)| find_tool(program).is_none());
    let mut packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    match packages.is_empty() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "programs are missing here; run `apt-get install {}`",
            packages.join(" ")
        ))),
    }
}

/// Runs a program with that input. Says what it printed.
///
/// # Errors
/// With the last line that it complained in.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().cannot(|| format!("start {name}"))?;
    let complaints = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut limited = stderr.take(COMPLAINTS_LEN_MAX);
            let _ = limited.read_to_end(&mut text);
            // What is more is read too, so that nobody waits for it.
            let _ = std::io::copy(&mut limited.into_inner(), &mut std::io::sink());
            String::from_utf8_lossy(&text).into_owned()
        })
    });
    if let Some(mut stdin) = child.stdin.take() {
        // Short, so that it fits the pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().cannot(|| format!("wait for {name}"))?;
    let complaints = complaints.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let lines = || complaints.lines().map(str::trim).filter(|line| !line.is_empty());
    let told = |line: &&str| line.starts_with("E: ") && !line.contains("Sub-process");
    let last = lines().rfind(told).or_else(|| lines().next_back()).unwrap_or_default();
    Err(Error::new(format!("{name} failed ({last})")))
}
