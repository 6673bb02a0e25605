//! What runs on a host before and after each job: the hidden command `wiglaf host-batch`, which Slurm's prolog and
//! epilog call as root.
//!
//! Both look at the node: one that fails takes no further jobs, with a sentence as the reason. The prolog asks nobody
//! else, because every job waits for it; the epilog ends what is left of the job first, and compares the clock with
//! the head's.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_node::agent::{BatchJob, end_batch_job};
use wiglaf_node::proto::Remains;

use crate::outside::ask;
use crate::{awake, heat, login, pbs};

/// What setting up says of a host.
pub const SETTINGS: &str = "/etc/wiglaf/batch/node.json";
/// What a reason begins with that the epilog gives.
pub const REASON: &str = "wiglaf: ";
/// The reason that a host has which was switched off and on, and has not looked at itself yet.
pub(crate) const CYCLED: &str = "wiglaf: it hung and was switched off and on";
/// What epilogs have found.
const LOG: &str = "/var/log/slurm/wiglaf-epilog.log";
/// Its age says when the clock was compared with the head's.
const COMPARED: &str = "/run/wiglaf-batch-clock";
/// The head is not asked at the end of each of many short jobs.
const COMPARED_S: u64 = 600;
/// munge takes nothing that is older than 300 s; below this nobody is hurt.
pub(crate) const CLOCK_S: u64 = 60;
/// Folders that a job needs, and how many MiB must be left there.
const ROOM: [(&str, u64); 3] = [("/tmp", 64), ("/var", 64), ("/dev/shm", 16)];

/// What a host is to be like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What Slurm calls it.
    pub node: String,
    /// What slurm.conf says of its memory, in MiB.
    pub memory_mib: u64,
    /// Whether wiglaf-helper ran when it was set up.
    pub has_helper: bool,
    /// Whether it takes no further jobs when it is too hot.
    #[serde(default)]
    pub heat: bool,
}

/// When something runs on a node besides jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before a job.
    Prolog,
    /// After it.
    Epilog,
    /// Before slurmd takes its first job, and from time to time.
    Look,
}

/// One of Slurm's scripts, and what it is called in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Root's.
    Root(When),
    /// The user's, before each task.
    Task,
}

impl Script {
    /// Its name: that of the file, and the word for `wiglaf host-batch`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Root(When::Prolog) => "prolog",
            Self::Root(When::Epilog) => "epilog",
            Self::Root(When::Look) => "look",
            Self::Task => "task-prolog",
        }
    }
}

/// Does what is to be done on a node with these settings. Says what was found.
///
/// # Errors
/// When it was not called by Slurm, or could not be done.
pub fn run(when: When, settings: &Path) -> Result<Vec<String>> {
    let settings = self::settings(settings)?;
    match when {
        When::Prolog => prolog(&settings),
        When::Epilog => epilog(&settings),
        When::Look => look(&settings),
    }
}

/// What this node is to be like.
pub(crate) fn settings(path: &Path) -> Result<Settings> {
    let text = fs::read_to_string(path).cannot(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::new(format!("{} is damaged ({error})", path.display())))
}

fn variable<T: std::str::FromStr>(name: &str) -> Result<T> {
    let value = std::env::var(name).ok().and_then(|value| value.parse().ok());
    value.ok_or_else(|| Error::new(format!("{name} is not set; this command is called by Slurm")))
}

fn prolog(settings: &Settings) -> Result<Vec<String>> {
    let Some(why) = test_quickly(settings) else {
        let (job, uid) = (variable("SLURM_JOB_ID")?, variable("SLURM_JOB_UID")?);
        pbs::make_folder(job, uid)?;
        login::admit(job, uid)?;
        awake::hold(job)?;
        return Ok(Vec::new());
    };
    drain(settings, &why)?;
    log(&[format!("before job {}: {why}", variable::<u32>("SLURM_JOB_ID")?)]);
    // The job goes to another node.
    Err(Error::new(why))
}

fn now() -> Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.ok()
        .and_then(|now| i64::try_from(now.as_secs()).ok())
        .ok_or_else(|| Error::new("the clock says a time before 1970"))
}

fn epilog(settings: &Settings) -> Result<Vec<String>> {
    let job = BatchJob {
        id: variable("SLURM_JOB_ID")?,
        uid: variable("SLURM_JOB_UID")?,
        node: settings.node.clone(),
    };
    // Before what is left is ended: nobody gets in any more.
    login::dismiss(job.id);
    awake::let_go(job.id);
    pbs::remove_folder(job.id);
    let remains = end_batch_job(&job);
    let mut said = match &remains {
        Ok(remains) => told(&job, remains),
        Err(error) => vec![format!("job {}: what is left of it cannot be seen: {error}", job.id)],
    };
    if let Some(why) = test_quickly(settings).or_else(clock) {
        said.push(why.clone());
        drain(settings, &why)?;
    }
    log(&said);
    Ok(said)
}

/// A node that was switched off and on takes jobs again when it is well.
fn look(settings: &Settings) -> Result<Vec<String>> {
    let found = test_quickly(settings).or_else(|| heat::found(settings.heat));
    let state = State::of(&settings.node)?;
    let was_cycled = state.is_drained && state.reason.starts_with(CYCLED);
    let said = match found {
        None if was_cycled => {
            update(&settings.node, "RESUME", None)?;
            vec!["it was switched off and on, is well, and takes jobs again".to_owned()]
        }
        None => Vec::new(),
        Some(why) if was_cycled => {
            let why = format!("{CYCLED}: {why}");
            update(&settings.node, "DRAIN", Some(&why))?;
            vec![why]
        }
        Some(why) if !state.is_drained => {
            update(&settings.node, "DRAIN", Some(&format!("{REASON}{why}")))?;
            vec![why]
        }
        Some(_) => Vec::new(),
    };
    log(&said);
    Ok(said)
}

fn told(job: &BatchJob, remains: &Remains) -> Vec<String> {
    let ended = remains.processes.iter().map(|process| {
        format!("job {}: ended process {}: {}", job.id, process.pid, process.command)
    });
    let removed =
        remains.shared_memory.iter().map(|file| format!("job {}: removed /dev/shm/{file}", job.id));
    ended.chain(removed).collect()
}

/// Nobody reads what an epilog prints.
fn log(said: &[String]) {
    if said.is_empty() {
        return;
    }
    let file = fs::OpenOptions::new().append(true).create(true).open(LOG);
    if let Ok(mut file) = file {
        // What users name has no line of its own.
        let lines = said.iter().map(|line| line.replace(char::is_control, "?") + "\n");
        let _ = file.write_all(lines.collect::<String>().as_bytes());
    }
}

/// What keeps this node from taking jobs: a sentence with the fix, of the first that is found.
fn test_quickly(settings: &Settings) -> Option<String> {
    memory(settings).or_else(room).or_else(|| helper(settings))
}

fn memory(settings: &Settings) -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    memory_in(&text, settings.memory_mib)
}

fn memory_in(text: &str, promised_mib: u64) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let mib = kib.unwrap_or_default() >> 10;
    (mib < promised_mib).then(|| {
        format!(
            "it has {mib} MiB of memory and slurm.conf says {promised_mib}; see that its modules sit, or run \
             wiglaf batch setup"
        )
    })
}

fn room() -> Option<String> {
    ROOM.iter().find_map(|(folder, needed_mib)| {
        let about = match rustix::fs::statvfs(*folder) {
            Ok(about) => about,
            Err(error) => return Some(format!("{folder} cannot be looked at ({error}); mount it")),
        };
        let left_mib = about.f_bavail.saturating_mul(about.f_frsize) >> 20;
        // A disk with errors is mounted again without leave to write.
        let is_closed = about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
        if is_closed {
            return Some(format!("{folder} cannot be written to; see what dmesg says of its disk"));
        }
        (left_mib < *needed_mib)
            .then(|| format!("{folder} has {left_mib} MiB left of the {needed_mib} that it takes; make room there"))
    })
}

fn clock() -> Option<String> {
    let age = fs::metadata(COMPARED).and_then(|about| about.modified()).ok();
    let age = age.and_then(|then| SystemTime::now().duration_since(then).ok());
    if age.is_some_and(|age| age.as_secs() < COMPARED_S) {
        return None;
    }
    let mut ask = Command::new("timeout");
    ask.args(["5", "scontrol", "show", "config"]).env("SLURM_TIME_FORMAT", "%s");
    // A head that does not answer is told by others.
    let said = ask.output().ok()?;
    let ahead = now().ok()?.saturating_sub(time_in(&String::from_utf8_lossy(&said.stdout))?);
    let _ = fs::write(COMPARED, "");
    clock_off(ahead)
}

/// The head's time, in the first line of what `scontrol show config` prints.
fn time_in(config: &str) -> Option<i64> {
    config.lines().next()?.split_whitespace().last()?.parse().ok()
}

fn clock_off(ahead: i64) -> Option<String> {
    (ahead.unsigned_abs() > CLOCK_S).then(|| {
        format!(
            "its clock is {} s {} that of the head; run sudo timedatectl set-ntp true there",
            ahead.unsigned_abs(),
            if ahead > 0 { "ahead of" } else { "behind" }
        )
    })
}

fn helper(settings: &Settings) -> Option<String> {
    if !settings.has_helper {
        return None;
    }
    let error = wiglaf_helper::status().err()?;
    Some(format!(
        "wiglaf-helper does not answer ({error}); run sudo systemctl restart wiglaf-helper there"
    ))
}

/// Has the node take no further jobs. An administrator's word stays.
fn drain(settings: &Settings, why: &str) -> Result<()> {
    match State::of(&settings.node)?.is_drained {
        true => Ok(()),
        false => update(&settings.node, "DRAIN", Some(&format!("{REASON}{why}"))),
    }
}

/// What Slurm says of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Whether somebody has said that it is to take no further jobs.
    pub(crate) is_drained: bool,
    /// Why; empty where no reason is given.
    pub(crate) reason: String,
}

impl State {
    pub(crate) fn of(node: &str) -> Result<Self> {
        Ok(Self::read(&ask("scontrol", &["show", "node", node])?))
    }

    /// Out of what `scontrol show node` prints.
    fn read(shown: &str) -> Self {
        let is_drained =
            |word: &str| word.strip_prefix("State=").is_some_and(|s| s.contains("DRAIN"));
        // The reason has a line of its own, which ends with who gave it and when.
        let reason = shown.lines().find_map(|line| line.trim().strip_prefix("Reason="));
        let reason = reason.map(|line| line.rsplit_once(" [").map_or(line, |(reason, _)| reason));
        Self {
            is_drained: shown.split_whitespace().any(is_drained),
            reason: reason.unwrap_or_default().trim().to_owned(),
        }
    }
}

/// Has Slurm change a node's state.
pub(crate) fn update(node: &str, state: &str, reason: Option<&str>) -> Result<()> {
    let (name, state) = (format!("NodeName={node}"), format!("State={state}"));
    let reason = reason.map(|reason| format!("Reason={reason}"));
    let words = ["update", &name, &state].into_iter().chain(reason.as_deref());
    ask("scontrol", &words.collect::<Vec<_>>()).map(drop)
}

/// The text of one of Slurm's scripts, for where Wiglaf's program is and, where they are no host's, the node's
/// settings: a word of sh's.
#[must_use]
pub fn script(which: Script, program: &Path, settings: Option<&str>) -> String {
    let program = wiglaf_base::shell::quoted(&program.display().to_string());
    let name = which.name();
    let (by, who) = match (settings, which) {
        (None, Script::Root(_)) => ("wiglaf batch setup", "root"),
        (None, Script::Task) => ("wiglaf batch setup", "the job's user"),
        (Some(_), Script::Root(_)) => ("wiglaf up --batch", "root"),
        (Some(_), Script::Task) => ("wiglaf up --batch", "the job's user"),
    };
    // A task does not fail for want of variables that few look for.
    let (exec, end) = match which {
        Script::Root(_) => ("exec ", ""),
        Script::Task => ("", " || exit 0"),
    };
    let path = match which {
        Script::Root(_) => "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n",
        // The rest of a task's environment was the submitter's.
        Script::Task if settings.is_some() => "echo \"export WIGLAF_NODE=$SLURMD_NODENAME\"\n",
        Script::Task => "",
    };
    let settings = match (which, settings) {
        (Script::Root(_), Some(word)) => format!(" --settings {word}"),
        _ => String::new(),
    };
    format!(
        "#!/bin/sh\n# Written by `{by}`: Slurm's {name}, as {who}.\n{path}\
         # A node without Wiglaf takes jobs all the same.\n\
         [ -x {program} ] || exit 0\n{exec}{program} host-batch {name}{settings}{end}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_says_of_a_node_is_read() {
        let shown = "NodeName=pc2 Arch=x86_64\n   State=DOWN+DRAIN+NOT_RESPONDING ThreadsPerCore=1\n   Reason=wiglaf: it \
                     hung [and] more [root@2026-11-29T09:00:00]\n";
        let reason = "wiglaf: it hung [and] more".to_owned();
        assert_eq!(State::read(shown), State { is_drained: true, reason });
        let none = State { is_drained: false, reason: String::new() };
        assert_eq!(State::read("NodeName=DRAIN State=IDLE\n"), none);
    }

    #[test]
    fn what_is_wrong_with_a_node_is_a_sentence_with_its_fix() {
        let meminfo = "MemTotal:       16301552 kB\nMemFree: 1 kB\n";
        assert_eq!(memory_in(meminfo, 15_919), None);
        let why = memory_in(meminfo, 15_920).unwrap();
        assert!(why.starts_with("it has 15919 MiB of memory and slurm.conf says 15920;"), "{why}");
        assert!(memory_in("", 1).is_some());
        assert_eq!((clock_off(0), clock_off(60), clock_off(-60)), (None, None, None));
        let why = clock_off(-3600).unwrap();
        assert!(why.starts_with("its clock is 3600 s behind that of the head; run "), "{why}");
        let said = "Configuration data as of 1732000000\nAccountingStorageBackupHost = (null)\n";
        assert_eq!(
            (time_in(said), time_in(""), time_in("a b\n")),
            (Some(1_732_000_000), None, None)
        );
        let why = clock_off(i64::MIN).unwrap();
        assert!(why.contains("behind"), "{why}");
    }
}
