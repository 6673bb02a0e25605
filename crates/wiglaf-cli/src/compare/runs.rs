//! The runs of a comparison, each by `wiglaf run` itself: what is measured is what users get.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use wiglaf_base::usage::Usage;
use wiglaf_base::{End, Error, HostList, Result, records, signals};
use wiglaf_bench::launch::{capture, last_words};
use wiglaf_bench::{Transport, interleave};
use wiglaf_compare::{Failure, Report, Run};

use super::{Args, transport_of};
use crate::choices::{Word, carrier};
use crate::measuring::{interrupt, progress};

/// A run that takes longer is stuck.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Starts the program, time after time.
pub(super) struct Runner<'a> {
    pub(super) args: &'a Args,
    pub(super) exe: PathBuf,
    pub(super) options: [OsString; 2],
    pub(super) names: Vec<String>,
    /// Whether the program is linked with an MPI; else it may load one.
    pub(super) is_linked: bool,
    /// Where the program runs, if not here.
    pub(super) folder: Option<PathBuf>,
}

/// Why a run is not in the tables.
enum Why {
    /// It alone.
    Run(String),
    /// No other would be any better.
    All(Error),
}

impl Runner<'_> {
    /// All rounds. Who fails on a number of nodes is not tried there again.
    pub(super) fn all(&self, report: &mut Report) -> Result<()> {
        let orders = interleave::rounds(report.ways.len(), report.rounds);
        for (round, order) in (1..).zip(&orders) {
            for place in 0..report.places.len() {
                for &way in order {
                    if report.has_failed(way, place) {
                        continue;
                    }
                    let done = self.one(report, way, place, round);
                    if interrupt::is_wanted() {
                        return Ok(());
                    }
                    match done {
                        Ok(run) => {
                            let cpu_s =
                                (run.user_s + run.system_s) / report.places[place].ranks as f64;
                            progress(&format!(
                                "{}: {:.2} s wall, {cpu_s:.2} s CPU",
                                report.name(&run),
                                run.wall_s
                            ));
                            report.runs.push(run);
                        }
                        Err(Why::Run(reason)) => {
                            progress(&reason);
                            let (place, round) = (Some(place), Some(round));
                            report.failures.push(Failure { way, place, round, reason });
                        }
                        Err(Why::All(error)) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    fn one(
        &self,
        report: &Report,
        way: usize,
        place: usize,
        round: usize,
    ) -> std::result::Result<Run, Why> {
        let mut run = Run {
            way,
            place,
            round,
            wall_s: 0.0,
            user_s: 0.0,
            system_s: 0.0,
            job_s: 0.0,
            value: None,
        };
        let name = report.name(&run);
        let of = report.places[place];
        let usage = PathBuf::from(format!("{}.usage", records::begin().map_err(Why::All)?));
        let start = Instant::now();
        let output =
            capture(self.command(report, way, place, &usage), TIME_MAX, &interrupt::is_wanted);
        run.job_s = start.elapsed().as_secs_f64();
        let text = std::fs::read_to_string(&usage).unwrap_or_default();
        let _ = std::fs::remove_file(&usage);
        let output = output.map_err(|error| Why::Run(format!("{name}: {error}")))?;
        let ranks: Vec<Usage> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !output.status.success() {
            return Err(Why::Run(format!("{name}: {}", failure(&output, &ranks))));
        }
        if !self.is_linked && !ranks.is_empty() && ranks.iter().all(|rank| !rank.has_mpi) {
            let program = self.args.argv[0].display();
            return Err(Why::All(Error::new(format!(
                "`{program}` is no MPI program: no rank of it loaded an MPI library, so each did the whole work \
                 by itself; build it with mpicc or mpif90, with the MPI as a shared library"
            ))));
        }
        if ranks.len() < of.ranks {
            return Err(Why::Run(format!(
                "{name}: {} of {} ranks left no record of their time",
                of.ranks - ranks.len(),
                of.ranks
            )));
        }
        run.wall_s = ranks.iter().map(|rank| rank.wall_s).fold(0.0, f64::max);
        run.user_s = ranks.iter().map(|rank| rank.user_s).sum();
        run.system_s = ranks.iter().map(|rank| rank.system_s).sum();
        if let Some(check) = &self.args.check {
            run.value = check.find(&String::from_utf8_lossy(&output.stdout));
            if run.value.is_none() {
                return Err(Why::Run(format!(
                    "{name}: the program printed no number for --check `{}`",
                    check.pattern()
                )));
            }
        }
        Ok(run)
    }

    fn command(&self, report: &Report, way: usize, place: usize, usage: &PathBuf) -> Command {
        let (args, of) = (self.args, report.places[place]);
        let nodes: HostList = self.names.iter().take(of.nodes).collect();
        let mut command = Command::new(&self.exe);
        command.args(&self.options).arg("run").arg("--usage").arg(usage);
        command.args(["-n", &of.ranks.to_string(), "--nodes", &nodes.to_string()]);
        let contender = transport_of(&report.ways[way].word);
        command.args(["--mpi", &args.mpi]);
        command.args(["--transport", carrier(contender).word()]);
        if contender == Transport::WiglafMulticast {
            command.args(["--collectives", "multicast"]);
        }
        command.args(["--link", args.link.word()]);
        command.args(["--deal", args.deal.word()]);
        for (name, value) in &args.env {
            command.arg("-x").arg(format!("{name}={value}"));
        }
        if args.share {
            command.arg("--share");
        }
        if args.stage {
            command.arg("--stage");
        }
        for file in &args.input {
            command.arg("--input").arg(file);
        }
        command.arg("--").args(&args.argv);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

/// How a run failed: the rank that did so first, as far as its record says it, and the most telling words.
fn failure(output: &Output, ranks: &[Usage]) -> String {
    let words = last_words(output);
    let words = words.strip_prefix("wiglaf: ").unwrap_or(&words);
    let is_told = |end: End| matches!(end, End::Signal(number) if is_ending(number));
    let first = ranks.iter().find(|rank| rank.end != End::Status(0) && !is_told(rank.end));
    let who = |rank: &Usage| rank.rank.map_or("a rank".to_owned(), |rank| format!("rank {rank}"));
    match first.map(|rank| (who(rank), rank.end)) {
        Some((who, End::Signal(number))) => format!("{who} ended by signal {number}"),
        Some((who, End::Status(status))) => format!("{who} ended with status {status}; {words}"),
        None => format!("{words} ({})", output.status),
    }
}

/// Whether launchers end ranks by it because of another.
fn is_ending(number: i32) -> bool {
    signals::ENDING.contains(&number) || number == signals::KILL
}
