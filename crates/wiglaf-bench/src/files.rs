//! Remote files by Wiglaf, sshfs and NFS, beside their floors: the disk where
//! it is, and one raw TCP stream.
//!
//! One C program, `files.c`, does the same work by every way: sequential
//! writes and reads in calls of 1 MiB, reads of 4 KiB here and there, and many
//! small files one by one. The ways take turns. What could be served from a
//! client's cache is not asked for twice: mounts are made anew for each run,
//! pages are read once after an open, and each small file is visited once.

pub(crate) mod nodes;
pub(crate) mod stage;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::interleave;
use crate::launch::Settings;
use crate::stats::{Samples, Summary, median};
pub use nodes::{Library, Nodes};
use stage::{Ready, Stage};

/// Layout of the JSON.
pub const SCHEMA: &str = "wiglaf-bench/files/1";

/// A way to files of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// None: the program runs where the files are.
    Local,
    /// No files, one TCP stream.
    Tcp,
    /// sshfs as it is installed.
    Sshfs,
    /// sshfs with the fastest cipher.
    SshfsFast,
    /// sshfs with the fastest cipher, past the client's page cache.
    SshfsDirect,
    /// libnfs and nfs-ganesha.
    Nfs,
    /// Wiglaf's library.
    Wiglaf,
    /// Wiglaf's library with read-ahead and write-behind.
    WiglafBuffered,
    /// `wiglaf mount`.
    WiglafMount,
}

/// All of them, in the order of the tables.
pub const WAYS: [Way; 9] = [
    Way::Local,
    Way::Tcp,
    Way::Sshfs,
    Way::SshfsFast,
    Way::SshfsDirect,
    Way::Nfs,
    Way::Wiglaf,
    Way::WiglafBuffered,
    Way::WiglafMount,
];

impl Way {
    /// Its name in tables and pictures.
    pub fn label(self) -> &'static str {
        match self {
            Self::Local => "local disk",
            Self::Tcp => "one TCP stream",
            Self::Sshfs => "sshfs",
            Self::SshfsFast => "sshfs aes-gcm",
            Self::SshfsDirect => "sshfs direct_io",
            Self::Nfs => "NFS, libnfs",
            Self::Wiglaf => "Wiglaf library",
            Self::WiglafBuffered => "Wiglaf buffered",
            Self::WiglafMount => "wiglaf mount",
        }
    }

    /// Whether it is one of sshfs's.
    fn is_sshfs(self) -> bool {
        matches!(self, Self::Sshfs | Self::SshfsFast | Self::SshfsDirect)
    }
}

/// What is done with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Row {
    /// One file is written from its beginning to its end, 1 MiB a call.
    Write,
    /// It is read so.
    Read,
    /// 4 KiB of it are read, here and there.
    #[serde(rename = "read-4k")]
    Read4K,
    /// stat, open, read and close of files of 1 KiB; all four count as one call.
    SmallFiles,
}

impl Row {
    /// What it is, in words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Write => "sequential write, 1 MiB calls",
            Self::Read => "sequential read, 1 MiB calls",
            Self::Read4K => "read of 4 KiB",
            Self::SmallFiles => "stat, open, read, close of a small file",
        }
    }
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Bytes of the file that is written and read, a multiple of 1 MiB.
    pub stream_bytes: u64,
    /// Reads of 4 KiB; at most as many as the file has pages.
    pub reads: u64,
    /// Small files.
    pub small_files: u64,
}

impl Sizes {
    /// What the figures are made with.
    pub const FULL: Self = Self { stream_bytes: 1 << 30, reads: 20_000, small_files: 100_000 };
    /// What shows the same, coarser.
    pub const QUICK: Self = Self { stream_bytes: 64 << 20, reads: 2000, small_files: 1000 };
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How often every way has its turn.
    pub rounds: usize,
    /// How much each time.
    pub sizes: Sizes,
    /// Who takes part.
    pub ways: Vec<Way>,
    /// The folder for measuring programs, which both nodes share.
    pub cache: PathBuf,
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds that every way had.
    pub rounds: usize,
    /// How much was done in each.
    pub sizes: Sizes,
    /// Who took part, and how they did.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
    /// Wiglaf against rivals and floors.
    pub comparison: Vec<Comparison>,
}

/// One way's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Which.
    pub way: Way,
    /// In words.
    pub label: String,
    /// How it was set up, and what its caches do.
    pub settings: Settings,
    /// What shows that it was what it says.
    pub evidence: Option<String>,
    /// What it did.
    pub points: Vec<Point>,
}

/// One way's figures of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Which row.
    pub row: Row,
    /// Bytes that a run moved.
    pub bytes: u64,
    /// Single calls, the samples of all rounds together.
    pub call: Summary,
    /// A whole run, from opening to close: the median over the rounds.
    pub whole_s: f64,
    /// `bytes` by `whole_s`, in 10^6 bytes a second.
    pub megabytes_per_s: f64,
    /// The whole runs of each round.
    pub round_whole_s: Vec<f64>,
}

/// Somebody who could not take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Who.
    pub way: Way,
    /// Why.
    pub reason: String,
}

/// What a ratio is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Median time of a call: less is better.
    CallTime,
    /// Time of a whole run: less is better.
    WholeTime,
    /// Bytes a second: more is better.
    Rate,
}

/// A ratio that was aimed at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Which row.
    pub row: Row,
    /// Of what.
    pub measure: Measure,
    /// Which of Wiglaf's ways.
    pub ours: Way,
    /// Against whom; of sshfs's ways the best.
    pub other: Way,
    /// Wiglaf's by the other's.
    pub ratio: f64,
    /// Wiglaf's by the other's, of the times of the calls that only one in a hundred is slower than, also where `ratio`
    /// is one of rates.
    pub p99_time_ratio: Option<f64>,
    /// What was aimed at: at most this for times, at least this for rates.
    pub aim: f64,
    /// Whether that was reached.
    pub is_met: bool,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part, or a way that was ready fails later.
pub fn measure(nodes: &dyn Nodes, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    let mut stage = Stage::set(nodes, &plan.cache, plan.sizes)?;
    let (mut entries, mut absent) = (Vec::new(), Vec::new());
    for &way in &plan.ways {
        progress(&format!("preparing {}", way.label()));
        let ready = stage.ready(way).and_then(|ready| {
            stage.try_out(way, &ready)?;
            Ok(ready)
        });
        match ready {
            Ok(ready) => entries.push(Entry { way, ready, found: BTreeMap::new() }),
            Err(reason) => absent.push(Absent { way, reason }),
        }
    }
    if entries.is_empty() {
        let reasons: Vec<_> =
            absent.iter().map(|a| format!("{}: {}", a.way.label(), a.reason)).collect();
        return Err(BenchError::NoContender(reasons.join("; ")));
    }
    for (round, turns) in interleave::rounds(entries.len(), plan.rounds).iter().enumerate() {
        for &turn in turns {
            let entry = &mut entries[turn];
            progress(&format!("round {} of {}: {}", round + 1, plan.rounds, entry.way.label()));
            let output = stage.measure(entry.way, &entry.ready)?;
            entry.take(&output)?;
        }
    }
    drop(stage);
    let contenders: Vec<_> = entries.into_iter().map(Entry::finish).collect();
    let mut facts = Facts::gather(nodes.facts());
    facts.versions.extend(stage::versions());
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts,
        rounds: plan.rounds,
        sizes: plan.sizes,
        comparison: compare(&contenders),
        contenders,
        absent,
    })
}

/// A way while it is being measured.
struct Entry {
    way: Way,
    ready: Ready,
    found: BTreeMap<Row, Found>,
}

#[derive(Debug, Default)]
struct Found {
    bytes: u64,
    calls: Samples,
    whole_s: Vec<f64>,
}

impl Entry {
    fn take(&mut self, output: &str) -> Result<()> {
        let lines = parse(output)?;
        if lines.is_empty() {
            return Err(bad_output("no results".to_owned()));
        }
        for line in lines {
            let found = self.found.entry(line.row).or_default();
            found.bytes = line.bytes;
            found.calls.merge(&Samples::from_pairs(line.call_ns));
            found.whole_s.push(line.whole_ns as f64 / 1e9);
        }
        Ok(())
    }

    fn finish(self) -> Contender {
        let Ready { settings, evidence, .. } = self.ready;
        Contender {
            way: self.way,
            label: self.way.label().to_owned(),
            settings,
            evidence,
            points: points(self.found),
        }
    }
}

fn points(found: BTreeMap<Row, Found>) -> Vec<Point> {
    let points = found.into_iter().filter_map(|(row, found)| {
        let whole_s = median(&found.whole_s)?;
        Some(Point {
            row,
            bytes: found.bytes,
            call: found.calls.summary(1.0)?,
            whole_s,
            megabytes_per_s: found.bytes as f64 / 1e6 / whole_s,
            round_whole_s: found.whole_s,
        })
    });
    points.collect()
}

impl Contender {
    /// What it did in one row.
    pub fn at(&self, row: Row) -> Option<&Point> {
        self.points.iter().find(|point| point.row == row)
    }
}

/// Against whom a ratio is taken.
#[derive(Clone, Copy)]
enum Against {
    BestSshfs,
    One(Way),
}

/// The ratios that are aimed at.
const AIMS: [(Row, Measure, Way, Against, f64); 7] = [
    (Row::Read4K, Measure::CallTime, Way::Wiglaf, Against::BestSshfs, 0.4),
    (Row::Read4K, Measure::CallTime, Way::Wiglaf, Against::One(Way::Nfs), 0.4),
    (Row::Write, Measure::Rate, Way::Wiglaf, Against::BestSshfs, 2.0),
    (Row::Write, Measure::Rate, Way::Wiglaf, Against::One(Way::Tcp), 1.2),
    (Row::Read, Measure::Rate, Way::Wiglaf, Against::BestSshfs, 2.0),
    (Row::Read, Measure::Rate, Way::Wiglaf, Against::One(Way::Tcp), 1.2),
    (Row::SmallFiles, Measure::WholeTime, Way::WiglafMount, Against::BestSshfs, 0.5),
];

/// Wiglaf's figures against what they are aimed at; without those who were not
/// measured.
pub fn compare(contenders: &[Contender]) -> Vec<Comparison> {
    let aims = AIMS.iter().filter_map(|&(row, measure, ours, against, aim)| {
        let value = |point: &Point| match measure {
            Measure::CallTime => point.call.p50_us,
            Measure::WholeTime => point.whole_s,
            Measure::Rate => point.megabytes_per_s,
        };
        let mine = contenders.iter().find(|c| c.way == ours)?.at(row)?;
        let others = contenders.iter().filter(|c| match against {
            Against::BestSshfs => c.way.is_sshfs(),
            Against::One(way) => c.way == way,
        });
        let points = others.filter_map(|c| Some((c.way, c.at(row)?)));
        let (other, theirs) = match measure {
            Measure::Rate => points.max_by(|a, b| value(a.1).total_cmp(&value(b.1))),
            _ => points.min_by(|a, b| value(a.1).total_cmp(&value(b.1))),
        }?;
        let ratio = value(mine) / value(theirs);
        let is_met = if measure == Measure::Rate { ratio >= aim } else { ratio <= aim };
        let p99_time_ratio = mine.call.p99_us.zip(theirs.call.p99_us).map(|(m, t)| m / t);
        Some(Comparison { row, measure, ours, other, ratio, p99_time_ratio, aim, is_met })
    });
    aims.collect()
}

#[derive(Debug, Deserialize)]
struct Line {
    row: Row,
    bytes: u64,
    whole_ns: u64,
    call_ns: Vec<(u64, u64)>,
}

fn bad_output(detail: String) -> BenchError {
    BenchError::Output { what: "the file program".into(), detail }
}

/// Reads the program's output; lines that others print are skipped.
fn parse(text: &str) -> Result<Vec<Line>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let parsed = lines.map(|line| {
        let line: Line = serde_json::from_str(line).map_err(|e| bad_output(e.to_string()))?;
        if line.call_ns.is_empty() || line.whole_ns == 0 {
            return Err(bad_output(format!("no samples of {}", line.row.label())));
        }
        Ok(line)
    });
    parsed.collect()
}

#[cfg(test)]
pub(crate) mod tests;
