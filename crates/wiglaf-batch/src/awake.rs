//! A PC does not go to sleep while a job runs: prolog and epilog hold a lock of logind's (`sleep:idle`, block), one for
//! each job, by a process of systemd-inhibit. Where no logind runs, nobody sends the PC to sleep either, and none is held.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use wiglaf_base::error::{Context, Result};

/// The program that holds a lock for as long as it runs.
const PROGRAM: &str = "systemd-inhibit";
/// logind's folder.
const LOGIND: &str = "/run/systemd/seats";
/// A file for each job, with the number of that process. A start of the host empties it.
const HELD: &str = "/run/wiglaf-batch/awake";

fn noted(job: u32) -> PathBuf {
    Path::new(HELD).join(job.to_string())
}

/// Holds sleep off until [`let_go`].
///
/// # Errors
/// When it cannot be noted who holds it. That nobody can hold it is no error.
pub(crate) fn hold(job: u32) -> Result<()> {
    if holder(job).is_some() || !Path::new(LOGIND).exists() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(HELD);
    made.cannot(|| format!("make {HELD}"))?;
    let why = format!("--why=batch job {job} runs");
    let mut command = Command::new(PROGRAM);
    // slurmd ends what is left of the prolog's own group as soon as that has ended.
    command.process_group(0).args(["--what=sleep:idle", "--mode=block", "--who=Wiglaf", &why]);
    // Neither the job's number nor its node: it is no process of the job's.
    command.args(["sleep", "infinity"]).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.current_dir("/");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    // Without it no desktop of systemd's is there that would send the host to sleep.
    let Ok(child) = child else { return Ok(()) };
    let (path, new) = (noted(job), noted(job).with_extension("new"));
    fs::write(&new, format!("{}\n", child.id()))
        .and_then(|()| fs::rename(&new, &path))
        .cannot(|| format!("write {}", path.display()))
}

/// Who holds sleep off for a job, where it runs still.
fn holder(job: u32) -> Option<Pid> {
    let pid: i32 = fs::read_to_string(noted(job)).ok()?.trim().parse().ok()?;
    // The number may be another process's by now.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mark = format!("--why=batch job {job} runs");
    command.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()).then_some(())?;
    Pid::from_raw(pid)
}

/// Lets the host go to sleep again, as far as this job is concerned.
pub(crate) fn let_go(job: u32) {
    if let Some(pid) = holder(job) {
        // With what it waits for.
        let _ = kill_process_group(pid, Signal::TERM);
    }
    let _ = fs::remove_file(noted(job));
}
