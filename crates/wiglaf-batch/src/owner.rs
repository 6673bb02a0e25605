//! The owner of a PC comes first: the hidden command `wiglaf host-owner`, a service on that PC, sees whether the owner
//! is there, and has Slurm's jobs make way.
//!
//! logind says who is there, or who(1) where no logind runs. What is done is done by Slurm: the node is drained, with
//! a reason that begins with [`REASON`], and its jobs are suspended, requeued or niced. Another one's drain stays.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, kill_process, setpriority_process};
use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::batch::{Owner, WhenBack};
use wiglaf_node::agent::{BatchJob, processes_of_batch_job};

use crate::node;
use crate::outside::ask;
use crate::revive::{Revival, Reviver};
use crate::sleep::Sleeper;

/// What the service is to do on a host; `null` ends it.
pub(crate) const FILE: &str = "/etc/wiglaf/batch/owner.json";
/// systemd's words about it.
pub(crate) const UNIT: &str = "/etc/systemd/system/wiglaf-owner.service";
/// What a reason begins with that it gives.
pub const REASON: &str = "wiglaf owner: ";
/// The name of its process.
const NAME: &str = "wiglaf-owner";
const PID: &str = "/run/wiglaf-owner.pid";
const RUN: &str = "/run/wiglaf-batch";
/// Jobs that it has changed. A start of the host forgets them, because none of them is left then.
const TOUCHED: &str = "/run/wiglaf-batch/owner.json";
/// How often it looks.
const PAUSE: Duration = Duration::from_secs(2);
/// What a niced job's processes get: the least there is.
const NICE: i32 = 19;

/// What [`FILE`] says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    /// What Slurm calls the host.
    pub(crate) node: String,
    /// Whose it is, where jobs make way for somebody.
    pub(crate) owner: Option<Owner>,
    /// The head's address and port, where Slurm sends the host to sleep.
    pub(crate) sleeps_under: Option<String>,
    /// On the head: which others are switched off and on when they hang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revives: Option<Revival>,
}

/// The text of [`FILE`].
pub(crate) fn file(watch: Option<&Watch>) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(&watch).cannot(|| "write what the owner of a PC wants".to_owned())
}

/// The text of [`UNIT`].
pub(crate) fn unit(program: &Path) -> String {
    format!(
        "# Written by `wiglaf batch setup`: this PC's owner comes first.\n[Unit]\n\
         Description=Batch jobs make way for the owner of this PC\nAfter=slurmd.service\n[Service]\n\
         ExecStart={} host-owner\nRestart=on-failure\nRestartSec=5\n[Install]\nWantedBy=multi-user.target\n",
        program.display()
    )
}

/// What is done for the owner, in words.
pub(crate) fn told(owner: &Owner) -> String {
    let user = &owner.user;
    let hours = owner.hours.as_ref().map(|hours| format!(", nor in the hours {hours}"));
    let jobs = match owner.when_back() {
        WhenBack::Suspend => "stand still meanwhile",
        WhenBack::Requeue => "go back to the queue",
        WhenBack::Nice => "come after the owner's processes",
        WhenBack::Nothing => "go on",
    };
    format!(
        "let no job begin while {user} is there or has been away for less than {} min{}; others' jobs that run {jobs}",
        owner.idle().count(),
        hours.unwrap_or_default()
    )
}

/// Jobs that were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Touched {
    suspended: Vec<u32>,
    niced: Vec<u32>,
}

/// Who keeps jobs from beginning on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Drained {
    /// Nobody.
    No,
    /// This service, for this reason.
    Ours(String),
    /// Somebody else.
    Theirs,
}

/// A job on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    id: u32,
    uid: u32,
    user: String,
    is_suspended: bool,
}

/// What is seen of the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Presence {
    /// The owner has no session.
    Gone,
    /// A session that was last touched so many seconds ago.
    Idle(u64),
    /// Nobody says.
    Unknown(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// No job begins, for this reason.
    Drain(String),
    /// Jobs begin again.
    Free,
    /// Slurm suspends the job.
    Suspend(Job),
    /// What the job has here stands still; Slurm has suspended it.
    Still(Job),
    /// It goes on.
    GoOn(Job),
    Requeue(Job),
    Nice(Job),
    Unnice(Job),
}

fn is_there(owner: &Owner, presence: &Presence) -> bool {
    let limit_s = u64::from(owner.idle().count()) * 60;
    matches!(presence, Presence::Idle(seconds) if *seconds < limit_s)
}

/// Why the node is the owner's now: none where it is not.
fn reason(owner: &Owner, presence: &Presence, time: Option<(usize, u32)>) -> Option<String> {
    let user = &owner.user;
    if let Presence::Unknown(why) = presence {
        return Some(format!("{REASON}it cannot be seen whether {user} is there: {why}"));
    }
    if is_there(owner, presence) {
        return Some(format!("{REASON}{user} is there"));
    }
    let hours = owner.hours.as_ref()?;
    // A host that does not know what time it is leaves the owner's hours alone.
    time.is_none_or(|(day, minute)| hours.has(day, minute))
        .then(|| format!("{REASON}these are the hours of {user}, {hours}"))
}

/// What is to be done. Nothing where all is as it should be, so that it may be asked again and again.
fn decide(
    owner: &Owner,
    (presence, time): (&Presence, Option<(usize, u32)>),
    node: &Drained,
    jobs: &[Job],
    touched: &Touched,
) -> Vec<Step> {
    let reason = reason(owner, presence, time);
    let wanted = if is_there(owner, presence) { owner.when_back() } else { WhenBack::Nothing };
    let mut steps = Vec::new();
    // Before anything else, so that none begins meanwhile.
    match (node, &reason) {
        (Drained::No, Some(why)) => steps.push(Step::Drain(why.clone())),
        (Drained::Ours(old), Some(why)) if old != why => steps.push(Step::Drain(why.clone())),
        _ => {}
    }
    for job in jobs.iter().filter(|job| job.user != owner.user) {
        let is_ours = touched.suspended.contains(&job.id);
        let is_nice = touched.niced.contains(&job.id);
        // Where nobody sees whether the owner is there, what was done to jobs stays.
        if matches!(presence, Presence::Unknown(_)) {
            continue;
        }
        match (wanted, job.is_suspended) {
            (WhenBack::Suspend, false) => steps.push(Step::Suspend(job.clone())),
            // Its ranks that came by ssh meanwhile.
            (WhenBack::Suspend, true) if is_ours => steps.push(Step::Still(job.clone())),
            (WhenBack::Requeue, false) => steps.push(Step::Requeue(job.clone())),
            (WhenBack::Nice, false) => steps.push(Step::Nice(job.clone())),
            (_, true) if is_ours && wanted != WhenBack::Suspend => {
                steps.push(Step::GoOn(job.clone()));
            }
            (_, false) if is_nice => steps.push(Step::Unnice(job.clone())),
            _ => {}
        }
    }
    // Last: a job that was suspended has the node before all others.
    if matches!(node, Drained::Ours(_)) && reason.is_none() {
        steps.push(Step::Free);
    }
    steps
}

/// Watches until it is not wanted any more.
///
/// # Errors
/// When it cannot read what it is to do.
pub fn watch() -> Result<()> {
    // By that name the service is known where no systemd runs.
    fs::write("/proc/self/comm", NAME).cannot(|| "name this process".to_owned())?;
    fs::write(PID, format!("{}\n", std::process::id())).cannot(|| format!("write {PID}"))?;
    let (mut last, mut state) = (String::new(), Kept::default());
    while let Some(watch) = read()? {
        // Slurm may be down, or not yet up: the next time.
        let said =
            round(&watch, &mut state).err().map(|error| error.to_string()).unwrap_or_default();
        if said != last && !said.is_empty() {
            eprintln!("wiglaf-owner: {said}");
        }
        last = said;
        std::thread::sleep(PAUSE);
    }
    release()?;
    let _ = fs::remove_file(PID);
    Ok(())
}

fn read() -> Result<Option<Watch>> {
    let text = match fs::read_to_string(FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.cannot(|| format!("read {FILE}"))?,
    };
    serde_json::from_str(&text).map_err(|error| {
        Error::new(format!("{FILE} is damaged ({error}); run `wiglaf batch setup`"))
    })
}

/// Has jobs go on, and the node take jobs again: nobody watches any more.
///
/// # Errors
/// When Slurm does not do it.
pub fn release() -> Result<()> {
    let node = node::settings(Path::new(node::SETTINGS))?.node;
    let user = String::new();
    // Nobody's, so that every job goes on.
    let owner = Owner { user, hours: None, idle: None, when_back: None };
    act(&node, &owner, &Presence::Gone, None).map(drop)
}

/// While the owner is away and nothing of ours is left in Slurm, it need not be asked: its programs, every two seconds,
/// take some per cent of a processor that a job has.
#[derive(Debug, Default)]
struct Rest {
    /// When Slurm was last seen to hold nothing of ours.
    since: Option<Instant>,
}

impl Rest {
    /// Somebody may have changed files of ours: then it is asked all the same.
    const MAX: Duration = Duration::from_secs(60);

    fn goes_on(&self, is_owners: bool, now: Instant) -> bool {
        !is_owners && self.since.is_some_and(|since| now.duration_since(since) < Self::MAX)
    }
}

/// What the service keeps between two looks.
#[derive(Debug, Default)]
struct Kept {
    rest: Rest,
    sleeper: Sleeper,
    reviver: Reviver,
}

fn round(watch: &Watch, kept: &mut Kept) -> Result<()> {
    let Kept { rest, sleeper, reviver } = kept;
    let node = &watch.node;
    let owned = watch.owner.as_ref().map_or(Ok(()), |owner| {
        let time = owner.hours.as_ref().and_then(|_| time_of_week());
        let (presence, now) = (presence(&owner.user), Instant::now());
        let is_owners = reason(owner, &presence, time).is_some();
        if rest.goes_on(is_owners, now) {
            return Ok(());
        }
        rest.since = None;
        let has_ours = act(node, owner, &presence, time)?;
        rest.since = (!has_ours && !is_owners).then_some(now);
        Ok(())
    });
    let slept = watch.sleeps_under.as_ref().map_or(Ok(()), |head| sleeper.round(node, head));
    let revived = watch.revives.as_ref().map_or(Ok(()), |revival| reviver.round(revival));
    owned.and(slept).and(revived)
}

/// Says whether Slurm held anything of ours before, or holds it now.
fn act(node: &str, owner: &Owner, presence: &Presence, time: Option<(usize, u32)>) -> Result<bool> {
    let mut touched = load();
    let before = touched.clone();
    let drained = drained(&ask("sinfo", &["-h", "-N", "-a", "-n", node, "-o", "%T|%E"])?);
    let listed = ["-h", "-a", "-w", node, "-t", "RUNNING,SUSPENDED", "-o", "%A|%T|%U|%u"];
    let jobs = jobs(&ask("squeue", &listed)?);
    // What somebody has let go on since, or has ended, is not ours any more.
    touched.suspended.retain(|id| jobs.iter().any(|job| job.id == *id && job.is_suspended));
    touched.niced.retain(|id| jobs.iter().any(|job| job.id == *id));
    let mut failed = None;
    let steps = decide(owner, (presence, time), &drained, &jobs, &touched);
    let has_ours = !steps.is_empty() || touched != Touched::default();
    for step in steps {
        // One job that Slurm does not suspend keeps no other running. The node stays drained for it.
        if matches!(step, Step::Free) && failed.is_some() {
            break;
        }
        if let Err(error) = carry_out(&step, node, &mut touched) {
            failed.get_or_insert(error);
        }
    }
    if touched != before {
        store(&touched)?;
    }
    failed.map_or(Ok(has_ours), Err)
}

fn carry_out(step: &Step, node: &str, touched: &mut Touched) -> Result<()> {
    let job = |verb: &str, job: &Job| ask("scontrol", &[verb, &job.id.to_string()]).map(drop);
    match step {
        Step::Drain(why) => node::update(node, "DRAIN", Some(why)),
        Step::Free => node::update(node, "RESUME", None),
        Step::Suspend(one) => {
            // Before Slurm does it: a job that was suspended and not noted would stand still for ever.
            touched.suspended.push(one.id);
            store(touched)?;
            let done = job("suspend", one);
            if done.is_err() {
                touched.suspended.retain(|id| *id != one.id);
            }
            done?;
            on_each(one, node, |pid| kill_process(pid, Signal::STOP))
        }
        Step::Still(one) => on_each(one, node, |pid| kill_process(pid, Signal::STOP)),
        Step::GoOn(one) => {
            // Before Slurm does it: once the job runs, nobody looks again.
            on_each(one, node, |pid| kill_process(pid, Signal::CONT))?;
            job("resume", one)?;
            touched.suspended.retain(|id| *id != one.id);
            Ok(())
        }
        Step::Requeue(one) => job("requeue", one),
        Step::Nice(one) => {
            if !touched.niced.contains(&one.id) {
                touched.niced.push(one.id);
            }
            on_each(one, node, |pid| setpriority_process(Some(pid), NICE))
        }
        Step::Unnice(one) => {
            on_each(one, node, |pid| setpriority_process(Some(pid), 0))?;
            touched.niced.retain(|id| *id != one.id);
            Ok(())
        }
    }
}

/// Slurm itself does not know ranks that `wiglaf run` has started here from another of the job's nodes.
fn on_each(
    job: &Job,
    node: &str,
    act: impl Fn(rustix::process::Pid) -> rustix::io::Result<()>,
) -> Result<()> {
    let job = BatchJob { id: job.id, uid: job.uid, node: node.to_owned() };
    let all = processes_of_batch_job(&job)
        .cannot(|| format!("see the processes of job {} here", job.id))?;
    // One that has ended meanwhile needs nothing.
    all.into_iter().for_each(|pid| {
        let _ = act(pid);
    });
    Ok(())
}

fn load() -> Touched {
    let text = fs::read_to_string(TOUCHED).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn store(touched: &Touched) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(RUN);
    made.cannot(|| format!("make {RUN}"))?;
    let text = serde_json::to_string(touched).cannot(|| format!("write {TOUCHED}"))?;
    let new = format!("{TOUCHED}.new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, TOUCHED))
        .cannot(|| format!("write {TOUCHED}"))
}

/// The day, Monday first, and its minute, as the host's people count.
fn time_of_week() -> Option<(usize, u32)> {
    time_in(&ask("date", &["+%u %H %M"]).ok()?)
}

fn time_in(said: &str) -> Option<(usize, u32)> {
    let numbers: Option<Vec<u32>> = said.split_whitespace().map(|word| word.parse().ok()).collect();
    let [day, hour, minute] = numbers?[..] else { return None };
    Some(((day as usize).checked_sub(1)?, hour * 60 + minute))
}

/// What sinfo says of the node, in each of its partitions.
fn drained(said: &str) -> Drained {
    let Some((state, reason)) = said.lines().next().and_then(|line| line.split_once('|')) else {
        return Drained::Theirs;
    };
    match (state.starts_with("drain"), reason.trim()) {
        (true, reason) if reason.starts_with(REASON) => Drained::Ours(reason.to_owned()),
        (true, _) => Drained::Theirs,
        // One that is down is nobody's to free, and drained for the time when it is up again.
        (false, _) => Drained::No,
    }
}

fn jobs(said: &str) -> Vec<Job> {
    let job = |line: &str| {
        let mut parts = line.trim().splitn(4, '|');
        let id = parts.next()?.parse().ok()?;
        let is_suspended = parts.next()? == "SUSPENDED";
        let uid = parts.next()?.parse().ok()?;
        Some(Job { id, uid, is_suspended, user: parts.next()?.to_owned() })
    };
    said.lines().filter_map(job).collect()
}

fn presence(user: &str) -> Presence {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let by_logind = ask("loginctl", &["list-sessions", "--no-legend"]).and_then(|said| {
        let ids = sessions_of(&said, user);
        if ids.is_empty() {
            return Ok(String::new());
        }
        let mut words = vec!["show-session"];
        for name in ["State", "Class", "Type", "TTY", "Seat", "IdleHint", "IdleSinceHint"] {
            words.extend(["-p", name]);
        }
        words.extend(ids);
        ask("loginctl", &words)
    });
    match by_logind {
        Ok(said) => by_sessions(&said, now),
        // No logind runs there.
        Err(first) => match ask("who", &["-u"]) {
            Ok(said) => by_terminals(&said, user),
            Err(second) => Presence::Unknown(format!("{first}; {second}").replace('\n', " ")),
        },
    }
}

/// The sessions of a user in what `loginctl list-sessions` prints: number, uid, name.
fn sessions_of<'a>(said: &'a str, user: &str) -> Vec<&'a str> {
    let own = |line: &'a str| {
        let mut words = line.split_whitespace();
        let (id, _, name) = (words.next()?, words.next()?, words.next()?);
        // It becomes a word of a command.
        (name == user && id.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(id)
    };
    said.lines().filter_map(own).collect()
}

/// How long the session has been idle that was touched last. One without seat and terminal, as of `scp` or a timer,
/// is nobody who is there.
fn by_sessions(said: &str, now: u64) -> Presence {
    let idle = said.split("\n\n").filter_map(|session| {
        let value = |name: &str| {
            let mut values =
                session.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            values.next().unwrap_or_default()
        };
        let is_user = value("Class").is_empty() || value("Class") == "user";
        let has_somebody = !value("Seat").is_empty() || !value("TTY").is_empty();
        if !is_user || !has_somebody || value("State") == "closing" {
            return None;
        }
        let since = value("IdleSinceHint").parse::<u64>().unwrap_or(0) / 1_000_000;
        // A desktop says when it is idle; of a terminal it is the last key.
        let is_idle = value("IdleHint") == "yes" || value("Type") == "tty";
        Some(if is_idle && since > 0 { now.saturating_sub(since) } else { 0 })
    });
    idle.min().map_or(Presence::Gone, Presence::Idle)
}

/// How long the terminal has been idle that was touched last, by what `who -u` prints in the C locale: user, terminal,
/// month, day, time, idle time. A point means less than a minute, `old` more than a day.
fn by_terminals(said: &str, user: &str) -> Presence {
    let idle = said.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&user) {
            return None;
        }
        Some(match words.get(5).copied() {
            Some("old") => 24 * 3600,
            Some(time) => match time.split_once(':') {
                Some((hours, minutes)) => {
                    hours.parse::<u64>().unwrap_or(0) * 3600
                        + minutes.parse::<u64>().unwrap_or(0) * 60
                }
                None => 0,
            },
            None => 0,
        })
    });
    idle.min().map_or(Presence::Gone, Presence::Idle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(hours: Option<&str>, when_back: WhenBack) -> Owner {
        Owner {
            user: "dora".to_owned(),
            hours: hours.map(|text| text.to_owned().try_into().unwrap()),
            idle: Some("15min".to_owned().try_into().unwrap()),
            when_back: Some(when_back),
        }
    }

    fn job(id: u32, user: &str, is_suspended: bool) -> Job {
        Job { id, uid: 1000, user: user.to_owned(), is_suspended }
    }

    fn suspended(ids: &[u32]) -> Touched {
        Touched { suspended: ids.to_vec(), niced: Vec::new() }
    }

    /// Monday, ten o'clock.
    const MORNING: Option<(usize, u32)> = Some((0, 600));
    const EVENING: Option<(usize, u32)> = Some((0, 1200));
    const HERE: Presence = Presence::Idle(0);

    fn there() -> String {
        format!("{REASON}dora is there")
    }

    #[test]
    fn owner_who_comes_back_has_the_node_drained_and_others_jobs_make_way() {
        let others = job(7, "bob", false);
        let jobs = [others.clone(), job(8, "dora", false)];
        for (when_back, step) in [
            (WhenBack::Suspend, Some(Step::Suspend(others.clone()))),
            (WhenBack::Requeue, Some(Step::Requeue(others.clone()))),
            (WhenBack::Nice, Some(Step::Nice(others.clone()))),
            (WhenBack::Nothing, None),
        ] {
            let owner = owner(None, when_back);
            let steps = decide(&owner, (&HERE, None), &Drained::No, &jobs, &Touched::default());
            let wanted: Vec<Step> = [Step::Drain(there())].into_iter().chain(step).collect();
            assert_eq!(steps, wanted, "{when_back:?}");
            // Idle for less than 15 min, it is as much the owner's; then it is not.
            let idle = |seconds| {
                decide(
                    &owner,
                    (&Presence::Idle(seconds), None),
                    &Drained::No,
                    &jobs,
                    &Touched::default(),
                )
            };
            assert_eq!((idle(899), idle(900)), (wanted, vec![]));
        }
    }

    #[test]
    fn slurm_is_asked_again_when_the_owner_comes_or_a_minute_later() {
        let now = Instant::now();
        assert!(!Rest::default().goes_on(false, now), "not before it was asked once");
        let rest = Rest { since: Some(now) };
        assert!(rest.goes_on(false, now + Duration::from_secs(59)));
        assert!(!rest.goes_on(true, now + Duration::from_secs(1)));
        assert!(!rest.goes_on(false, now + Rest::MAX));
    }

    #[test]
    fn nothing_is_done_twice_and_what_others_did_stays() {
        let owner = owner(None, WhenBack::Suspend);
        let ours = Drained::Ours(there());
        let decide = |presence: &Presence, node: &Drained, jobs: &[Job], ids: &[u32]| {
            decide(&owner, (presence, None), node, jobs, &suspended(ids))
        };
        // Ours stands still; one that somebody else has suspended is left alone, then and later.
        let jobs = [job(7, "bob", true), job(9, "bob", true)];
        assert_eq!(decide(&HERE, &ours, &jobs, &[7]), [Step::Still(jobs[0].clone())]);
        assert_eq!(
            decide(&Presence::Gone, &ours, &jobs, &[7]),
            [Step::GoOn(jobs[0].clone()), Step::Free]
        );
        // A drain of somebody else's stays, and its jobs make way all the same.
        let jobs = [job(7, "bob", false)];
        assert_eq!(decide(&HERE, &Drained::Theirs, &jobs, &[]), [Step::Suspend(jobs[0].clone())]);
        assert_eq!(decide(&Presence::Gone, &Drained::Theirs, &jobs, &[]), []);
        assert_eq!(decide(&Presence::Gone, &Drained::No, &[], &[]), []);
    }

    #[test]
    fn in_the_owners_hours_no_job_begins_and_those_that_run_go_on() {
        let owner = owner(Some("mon-fri 8-18"), WhenBack::Suspend);
        let hours = format!("{REASON}these are the hours of dora, mon-fri 8-18");
        let jobs = [job(7, "bob", false)];
        let decide = |presence: &Presence, time, node: &Drained, jobs: &[Job]| {
            decide(&owner, (presence, time), node, jobs, &suspended(&[7]))
        };
        assert_eq!(
            decide(&Presence::Gone, MORNING, &Drained::No, &jobs),
            [Step::Drain(hours.clone())]
        );
        assert_eq!(decide(&Presence::Gone, EVENING, &Drained::No, &jobs), []);
        // Away for lunch: what stood still goes on, and the reason is another one.
        let still = [job(7, "bob", true)];
        assert_eq!(
            decide(&Presence::Idle(1000), MORNING, &Drained::Ours(there()), &still),
            [Step::Drain(hours.clone()), Step::GoOn(still[0].clone())]
        );
        assert_eq!(decide(&Presence::Gone, MORNING, &Drained::Ours(hours.clone()), &jobs), []);
        assert_eq!(
            decide(&Presence::Gone, EVENING, &Drained::Ours(hours.clone()), &jobs),
            [Step::Free]
        );
        // A host that does not know the time.
        assert_eq!(decide(&Presence::Gone, None, &Drained::Ours(hours), &jobs), []);
    }

    #[test]
    fn where_nobody_says_who_is_there_no_job_begins_and_none_is_changed() {
        let owner = owner(None, WhenBack::Suspend);
        let unknown = Presence::Unknown("no logind".to_owned());
        let jobs = [job(7, "bob", true), job(9, "bob", false)];
        let steps = decide(&owner, (&unknown, None), &Drained::No, &jobs, &suspended(&[7]));
        let why = format!("{REASON}it cannot be seen whether dora is there: no logind");
        assert_eq!(steps, [Step::Drain(why)]);
    }

    #[test]
    fn niced_jobs_are_niced_again_for_new_processes_and_then_as_before() {
        let owner = owner(None, WhenBack::Nice);
        let touched = Touched { suspended: Vec::new(), niced: vec![7] };
        let jobs = [job(7, "bob", false)];
        let node = Drained::Ours(there());
        assert_eq!(
            decide(&owner, (&HERE, None), &node, &jobs, &touched),
            [Step::Nice(jobs[0].clone())]
        );
        assert_eq!(
            decide(&owner, (&Presence::Gone, None), &node, &jobs, &touched),
            [Step::Unnice(jobs[0].clone()), Step::Free]
        );
    }

    #[test]
    fn logind_says_who_is_there_and_since_when_nobody_is() {
        let listed =
            "  1 1001 dora seat0 tty2\n c2 1002 bob  -  -\n x; 1001 dora\n 33 1001 dora  pts/0\n";
        assert_eq!(sessions_of(listed, "dora"), ["1", "33"]);
        let session = |tty: &str, kind: &str, hint: &str, since: u64, state: &str| {
            format!(
                "TTY={tty}\nType={kind}\nClass=user\nState={state}\nIdleHint={hint}\nIdleSinceHint={}\nSeat=\n",
                since * 1_000_000
            )
        };
        let desktop = |hint| session("tty2", "x11", hint, 900, "active");
        assert_eq!(by_sessions(&desktop("no"), 1000), Presence::Idle(0));
        assert_eq!(by_sessions(&desktop("yes"), 1000), Presence::Idle(100));
        // The last key of a terminal, whatever the hint is.
        let terminal = session("pts/0", "tty", "no", 400, "active");
        assert_eq!(by_sessions(&terminal, 1000), Presence::Idle(600));
        let both = format!("{terminal}\n{}", desktop("yes"));
        assert_eq!(by_sessions(&both, 1000), Presence::Idle(100));
        for nobody in [
            String::new(),
            session("", "unspecified", "no", 0, "active"),
            session("pts/0", "tty", "no", 400, "closing"),
            terminal.replace("Class=user", "Class=greeter"),
        ] {
            assert_eq!(by_sessions(&nobody, 1000), Presence::Gone, "{nobody}");
        }
    }

    #[test]
    fn terminals_say_it_where_no_logind_runs() {
        let said = "bob      pts/0        Nov 28 03:00   .          311 (pc1)\n\
                    dora     tty1         Nov  2 01:00  01:02       312\n\
                    dora     pts/1        Nov 28 01:00  old         313 (pc1)\n";
        assert_eq!(by_terminals(said, "dora"), Presence::Idle(3720));
        assert_eq!(by_terminals(said, "bob"), Presence::Idle(0));
        assert_eq!(by_terminals(said, "carl"), Presence::Gone);
    }

    #[test]
    fn slurms_lists_are_read() {
        assert_eq!(drained("idle|none\n"), Drained::No);
        assert_eq!(drained("drained*|wiglaf owner: dora is there\nx|y\n"), Drained::Ours(there()));
        assert_eq!(drained("draining|wiglaf: /tmp is full\n"), Drained::Theirs);
        assert_eq!(drained(""), Drained::Theirs);
        assert_eq!(
            jobs("7|RUNNING|1000|bob\nnonsense\n8|SUSPENDED|1001|dora\n"),
            [job(7, "bob", false), Job { uid: 1001, ..job(8, "dora", true) }]
        );
        assert_eq!(
            (time_in("1 08 30\n"), time_in("0 1 1"), time_in("")),
            (Some((0, 510)), None, None)
        );
    }
}
