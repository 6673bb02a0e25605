//! A control group for a job's processes on a real host, where the user has a systemd of their own
//! (`systemd --user`): a slice below the user's, and in it a scope for each command. Unlike the mark in their
//! environment, processes cannot leave it, and it is ended at once (`cgroup.kill`, cgroups(7)).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wiglaf_base::program::find_tool;

use super::environment::JOB_LEN_MAX;
use super::jobs::pids;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Its systemd may be busy, or stopped; a job starts all the same, after so many seconds.
const PATIENCE_S: &str = "5";
/// What timeout(1) says of a command that was too slow.
const TOO_SLOW: i32 = 124;
/// The slice above those of all jobs, and how theirs begin.
const ALL: &str = "wiglaf.slice";
const PREFIX: &str = "wiglaf-";
const SUFFIX: &str = ".slice";
/// Nothing of a command line is expanded; releases before 254 never do, and do not know the word.
const LITERAL: &str = "--expand-environment=no";

/// The slice of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    job: String,
    folder: PathBuf,
    is_literal: bool,
}

impl Slice {
    /// Has the user's systemd make one; nothing where there is none, or it does not answer.
    pub(super) fn make(job: &str) -> Option<Self> {
        if !is_plain(job) || !has_systemd() {
            return None;
        }
        for is_literal in [true, false] {
            let mut command = words(job, is_literal);
            command.extend(["cat", "/proc/self/cgroup"].map(OsString::from));
            let (status, said) = ask(&command).ok()?;
            match status {
                0 => {}
                TOO_SLOW => return None,
                _ => continue,
            }
            let folder = folder_of(&said, |of| of == job)?;
            return Some(Self { job: job.to_owned(), folder, is_literal });
        }
        None
    }

    /// What other agents of this user need to know of it.
    pub(super) fn to_text(&self) -> String {
        format!("{}\n{}\n", self.folder.display(), self.is_literal)
    }

    /// What one has noted of a job's; nothing where it has none.
    pub(super) fn from_text(job: &str, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let folder = PathBuf::from(lines.next()?);
        let is_literal = lines.next()?.parse().ok()?;
        let is_ours = is_plain(job)
            && folder.starts_with(ROOT)
            && folder.file_name() == Some(OsStr::new(&name(job)));
        is_ours.then(|| Self { job: job.to_owned(), folder, is_literal })
    }

    /// What goes before a command line that is to run in it.
    pub(super) fn before(&self) -> Vec<OsString> {
        words(&self.job, self.is_literal)
    }

    /// Ends all processes in it.
    pub(super) fn end(&self) {
        end(&self.folder);
    }
}

/// The processes in slices of jobs that are not running, of the user `uid`. What a process says of its groups is
/// read, so no systemd needs to answer.
pub(super) fn left(uid: u32, is_running: impl Fn(&str) -> bool) -> Vec<(PathBuf, Vec<i32>)> {
    let pids = pids().unwrap_or_default();
    let folders: BTreeSet<PathBuf> = pids
        .into_iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).ok())
        .filter_map(|shown| folder_of(&shown, |job| !is_running(job)))
        // systemd gives a slice of the user's to the user.
        .filter(|folder| fs::metadata(folder).is_ok_and(|meta| meta.uid() == uid))
        .collect();
    folders
        .into_iter()
        .map(|folder| {
            let mut pids = Vec::new();
            processes(&folder, &mut pids);
            (folder, pids)
        })
        .filter(|(_, pids)| !pids.is_empty())
        .collect()
}

/// Ends all processes of a slice. Kernels before 5.14 cannot; the mark finds most.
pub(super) fn end(folder: &Path) {
    let _ = fs::write(folder.join("cgroup.kill"), "1");
}

fn processes(folder: &Path, pids: &mut Vec<i32>) {
    let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    pids.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            processes(&entry.path(), pids);
        }
    }
}

/// Whether the user's systemd runs: it listens there.
fn has_systemd() -> bool {
    run().join("systemd/private").exists() && find_tool("systemd-run").is_some()
}

/// Where logind keeps the user's sockets. The variable of that name may come from another host.
fn run() -> PathBuf {
    PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()))
}

fn run_var() -> OsString {
    let mut var = OsString::from("XDG_RUNTIME_DIR=");
    var.push(run());
    var
}

fn words(job: &str, is_literal: bool) -> Vec<OsString> {
    let systemd_run = find_tool("systemd-run").unwrap_or_else(|| PathBuf::from("systemd-run"));
    let slice = format!("--slice={}", name(job));
    let options = ["--user", "--scope", "--quiet", "--collect", &slice];
    let literal = is_literal.then_some(LITERAL);
    let options = options.into_iter().chain(literal).chain(["--"]).map(OsString::from);
    [OsString::from("env"), run_var(), systemd_run.into_os_string()]
        .into_iter()
        .chain(options)
        .collect()
}

/// The exit status of a command, and what it prints. A shell says the status, because whoever reaps all children of
/// this process may take it first.
fn ask(command: &[OsString]) -> io::Result<(i32, String)> {
    let mut shell = Command::new("sh")
        .args(["-c", "timeout \"$@\"; echo \"$?\"", "sh", PATIENCE_S])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut said = String::new();
    let read = shell.stdout.take().map(|mut from| from.read_to_string(&mut said)).transpose();
    let _ = shell.wait();
    read?;
    let text = said.trim_end();
    let (text, status) = text.rsplit_once('\n').unwrap_or(("", text));
    let status = status.parse().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok((status, text.to_owned()))
}

fn name(job: &str) -> String {
    format!("{PREFIX}{job}{SUFFIX}")
}

/// Whether it may be a file's name, or a slice's, where a dash would name one below another.
pub(super) fn is_plain(job: &str) -> bool {
    (1..=JOB_LEN_MAX).contains(&job.len()) && job.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The folder of a wanted job's slice, as a process in it shows its control groups.
fn folder_of(shown: &str, is_wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let path = shown.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new(ROOT).join(path);
    let slice = folder.ancestors().find(|above| {
        let name = above.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let job = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
        let is_below = above.parent().and_then(Path::file_name) == Some(OsStr::new(ALL));
        is_below && job.is_some_and(|job| is_plain(job) && is_wanted(job))
    })?;
    // It goes with its last process, and comes back with the next.
    Path::new(ROOT).join("cgroup.controllers").exists().then(|| slice.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::children::Children;

    #[test]
    fn an_answer_does_not_depend_on_who_reaps() {
        // All children of the process are reaped.
        if !crate::agent::is_alone("agent::slice::tests::an_answer_does_not_depend_on_who_reaps") {
            return;
        }
        // The reaper waits for a child while it has one.
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::spawn(|| Children::default().reap(&|_| {}));
        let say = |line: &str| ask(&["sh", "-c", line].map(OsString::from)).unwrap();
        // Either may be first.
        for _ in 0..100 {
            assert_eq!(say("echo a; echo b"), (0, "a\nb".to_owned()));
        }
        assert_eq!(say("exit 3"), (3, String::new()));
        other.kill().unwrap();
        // By whom does not matter.
        let _ = other.wait();
    }

    #[test]
    fn a_note_is_read_back_and_one_of_another_job_is_none() {
        let folder = Path::new(ROOT).join("user.slice/wiglaf.slice/wiglaf-00ff.slice");
        let slice = Slice { job: "00ff".to_owned(), folder, is_literal: true };
        assert_eq!(Slice::from_text("00ff", &slice.to_text()), Some(slice.clone()));
        for (job, text) in
            [("00aa", slice.to_text()), ("00ff", String::new()), ("..", "x\ntrue\n".to_owned())]
        {
            assert_eq!(Slice::from_text(job, &text), None, "{job} {text}");
        }
        let words = slice.before();
        assert_eq!(words.last().and_then(|word| word.to_str()), Some("--"));
        assert!(words.contains(&OsString::from("--slice=wiglaf-00ff.slice")));
    }

    #[test]
    fn processes_of_groups_below_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("run-1.scope")).unwrap();
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        fs::write(dir.path().join("run-1.scope/cgroup.procs"), "12\n13\n").unwrap();
        let mut pids = Vec::new();
        processes(dir.path(), &mut pids);
        assert_eq!(pids, [12, 13]);
        let is_wanted = |job: &str| job == "00ff";
        for shown in [
            "1:cpu:/x\n",
            "0::/wiglaf.slice/wiglaf-00aa.slice/run-1.scope\n",
            "0::/wiglaf-00ff.slice/run-1.scope\n",
            "0::/wiglaf.slice/wiglaf-.slice/run-1.scope\n",
            "",
        ] {
            assert_eq!(folder_of(shown, is_wanted), None, "{shown}");
        }
        if Path::new(ROOT).join("cgroup.controllers").exists() {
            let folder = Path::new(ROOT).join("u/wiglaf.slice/wiglaf-00ff.slice");
            let shown = "0::/u/wiglaf.slice/wiglaf-00ff.slice/run-1.scope\n";
            assert_eq!(folder_of(shown, is_wanted), Some(folder));
        }
    }
}
