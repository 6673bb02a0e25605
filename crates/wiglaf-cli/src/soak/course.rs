//! The course of a soak: which jobs, under which faults, and what became of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::compile::MeasuringProgram;
use wiglaf_bench::soak::{SCHEMA, Sample, Trend, trends};
use wiglaf_emulation::fault::{self, Faults, HOLD_DEFAULT, PortFaults, Probability, Wish};

use super::Args;
use super::watch::Watch;
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, plain, progress};
use crate::up::this_exe;

/// How long a job beside the long one runs.
const SHORT_S: [f64; 4] = [0.3, 0.5, 1.0, 2.0];
const LINKS: [&str; 4] = ["packet", "udp", "xdp", "auto"];
/// One job in so many is killed.
const KILL_EVERY: u64 = 4;
/// How much longer a job may take than it was told to, and its remains to go.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// How often it is said how far things are.
const NEWS: Duration = Duration::from_secs(60);

/// The result, as it is written down.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    schema: &'static str,
    /// With which the course can be had again, if not the times.
    seed: u64,
    seconds: f64,
    cluster: String,
    link: String,
    /// Jobs that ended well, by link.
    jobs: BTreeMap<String, u64>,
    killed: u64,
    /// Kinds of faults, and how many jobs met them.
    faults: BTreeMap<String, u64>,
    /// What was received and found right, where rank 0 told of it.
    messages: u64,
    bytes: u64,
    pub(super) errors: Vec<String>,
    pub(super) trends: Vec<Trend>,
    pub(super) samples: Vec<Sample>,
}

impl Report {
    pub(super) fn summary(&self) -> String {
        let jobs: u64 = self.jobs.values().sum();
        format!(
            "{:.0} s, {jobs} jobs beside the long one, {} killed, {:.1} GB in {} messages found \
             right, {} errors\n",
            self.seconds,
            self.killed,
            self.bytes as f64 / 1e9,
            self.messages,
            self.errors.len()
        )
    }
}

#[derive(serde::Deserialize)]
struct Told {
    messages: u64,
    bytes: u64,
}

/// Numbers that follow from a seed (Steele, Lea and Flood, SplitMix64, 2014).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % sides
    }
}

struct Course<'a> {
    cluster: &'a Cluster,
    program: std::path::PathBuf,
    work: &'a Path,
    /// Where the long job's ranks say what they hold from malloc.
    heaps: std::path::PathBuf,
    dice: Dice,
    report: Report,
}

pub(super) fn run(args: &Args, cluster: &Cluster, work: &Path, seed: u64) -> Result<Report> {
    let program = MeasuringProgram::Soak.build(work).map_err(plain)?;
    let report = Report {
        schema: SCHEMA,
        seed,
        seconds: 0.0,
        cluster: cluster.record.shape.summary(),
        link: args.link.clone(),
        jobs: BTreeMap::new(),
        killed: 0,
        faults: BTreeMap::new(),
        messages: 0,
        bytes: 0,
        errors: Vec::new(),
        trends: Vec::new(),
        samples: Vec::new(),
    };
    let heaps = work.join(format!("soak-heaps-{}", std::process::id()));
    std::fs::create_dir_all(&heaps).cannot(|| format!("make the folder {}", heaps.display()))?;
    let mut course = Course { cluster, program, work, heaps, dice: Dice(seed), report };
    let ran = course.run(args);
    // Numbers of a job that has ended: nobody misses what could not be removed.
    let _ = std::fs::remove_dir_all(&course.heaps);
    if !args.no_faults {
        course.set_faults("none")?;
    }
    ran?;
    let mut report = course.report;
    report.trends = trends(&report.samples);
    Ok(report)
}

impl Course<'_> {
    fn run(&mut self, args: &Args) -> Result<()> {
        let heaps = self.heaps.clone();
        let mut watch = Watch::new(&self.cluster.record, heaps.clone());
        let began = Instant::now();
        let mut long = Ended(self.start(&args.link, 2, args.time.as_secs_f64(), Some(&heaps))?);
        while watch.find_job(&self.program) < 2 {
            if let Some(status) = long.0.try_wait().cannot(|| "await the long job".to_owned())? {
                return Err(Error::new(format!("the long job could not begin: {status}")));
            }
            interrupt::check()?;
            std::thread::sleep(POLL);
        }
        let launchers = watch.launchers();
        let mut news = Instant::now();
        while began.elapsed() < args.time {
            if !args.no_faults {
                let kinds = ["none", "none", "drop", "duplicate", "corrupt", "reorder", "down"];
                let kind = kinds[self.dice.throw(kinds.len() as u64) as usize];
                self.set_faults(kind)?;
                *self.report.faults.entry(kind.to_owned()).or_default() += 1;
            }
            self.one_job()?;
            let gone = Instant::now();
            while watch.strangers(&launchers) > 0 {
                if gone.elapsed() > PATIENCE {
                    self.report.errors.push("processes of an ended job do not go".to_owned());
                    return Ok(());
                }
                interrupt::check()?;
                std::thread::sleep(POLL);
            }
            if long.0.try_wait().cannot(|| "watch the long job".to_owned())?.is_some() {
                break; // in time or not, its status will tell
            }
            let sample = watch.sample(began.elapsed().as_secs_f64());
            if sample.job_rss_kib == 0 {
                break; // its ranks have ended, and its launcher not yet
            }
            self.report.samples.push(sample);
            if news.elapsed() > NEWS {
                news = Instant::now();
                let jobs: u64 = self.report.jobs.values().sum();
                progress(&format!("{:.0} s, {jobs} jobs", began.elapsed().as_secs_f64()));
            }
        }
        if !args.no_faults {
            self.set_faults("none")?;
        }
        let limit = args.time.saturating_sub(began.elapsed()) + PATIENCE;
        self.finish(&mut long, "the long job", limit)?;
        self.report.seconds = began.elapsed().as_secs_f64();
        Ok(())
    }

    /// A job beside the long one, from its beginning to its end.
    fn one_job(&mut self) -> Result<()> {
        let link = LINKS[self.dice.throw(LINKS.len() as u64) as usize];
        let ranks = 2 + self.dice.throw(3) as usize;
        let seconds = SHORT_S[self.dice.throw(SHORT_S.len() as u64) as usize];
        let is_killed = self.dice.throw(KILL_EVERY) == 0;
        let mut job = Ended(self.start(link, ranks, seconds, None)?);
        if is_killed {
            std::thread::sleep(Duration::from_secs_f64(seconds));
            job.0.kill().cannot(|| "kill a job".to_owned())?;
            job.0.wait().cannot(|| "await a killed job".to_owned())?;
            self.report.killed += 1;
            return Ok(());
        }
        let limit = Duration::from_secs_f64(seconds) + PATIENCE;
        if self.finish(&mut job, &format!("a job of {ranks} ranks over {link}"), limit)? {
            *self.report.jobs.entry(link.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    /// Its ranks tell of their heaps in a folder, if there is one.
    fn start(
        &mut self,
        link: &str,
        ranks: usize,
        seconds: f64,
        heaps: Option<&Path>,
    ) -> Result<Child> {
        let mut command = Command::new(this_exe()?);
        command.arg("--state").arg(self.cluster.state.path()).args(["run", "--link", link]);
        command.args(["-n", &ranks.to_string(), "--"]).arg(&self.program);
        command.args([seconds.to_string(), self.dice.throw(u64::MAX).to_string()]).args(heaps);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.current_dir(self.work).spawn().cannot(|| "start a job".to_owned())
    }

    /// Waits for a job, and notes what it found or what was wrong. False when something was.
    fn finish(&mut self, job: &mut Ended, what: &str, limit: Duration) -> Result<bool> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = job.0.try_wait().cannot(|| format!("await {what}"))? {
                break Some(status);
            }
            interrupt::check()?;
            if began.elapsed() > limit {
                break None;
            }
            std::thread::sleep(POLL);
        };
        let Some(status) = status else {
            self.report.errors.push(format!("{what} does not end"));
            return Ok(false);
        };
        // One line, and a complaint at most: the pipes hold them.
        let read = |pipe: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            pipe.map(|pipe| pipe.read_to_string(&mut text));
            text
        };
        let out = read(job.0.stdout.as_mut().map(|p| p as &mut dyn std::io::Read));
        let complaint = read(job.0.stderr.as_mut().map(|p| p as &mut dyn std::io::Read));
        let told: Option<Told> = out.lines().find_map(|line| serde_json::from_str(line).ok());
        match told.filter(|_| status.success()) {
            Some(told) => {
                self.report.messages += told.messages;
                self.report.bytes += told.bytes;
                Ok(true)
            }
            None => {
                let last = complaint.lines().find(|line| line.contains("wrong"));
                let last = last.or(complaint.lines().last()).unwrap_or("it said nothing");
                self.report.errors.push(format!("{what} failed ({status}): {last}"));
                Ok(false)
            }
        }
    }

    fn set_faults(&self, kind: &str) -> Result<()> {
        let share = |text: &str| Probability::parse(text);
        let mut faults = Faults::default();
        match kind {
            "drop" => faults.drop = share("1%")?,
            "duplicate" => faults.duplicate = share("2%")?,
            "corrupt" => faults.corrupt = share("0.5%")?,
            "reorder" => faults.reorder = share("2%")?,
            _ => {}
        }
        let names = self.cluster.record.shape.names().names().to_vec();
        let set = |faults: Option<Faults>, nodes: &[String], is_down: bool| {
            let faults = faults.map(|both| PortFaults { from: both, to: both });
            let wish = Wish { faults, hold: HOLD_DEFAULT, is_down };
            fault::set(&self.cluster.state, &self.cluster.record, nodes, &wish)
        };
        if kind == "down" {
            // Pulled, and put in again: what follows begins on a wire that has just come back.
            set(None, &names[1..2], true)?;
            std::thread::sleep(Duration::from_millis(200));
        }
        let wanted = (!matches!(kind, "none" | "down")).then_some(faults);
        set(wanted, &names, false)
    }
}

/// A job that does not outlive its soak.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
