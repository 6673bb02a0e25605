//! Collectives and exchanges as programs call them: blocking and non-blocking, by operation and length.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::{Absent, CONTENDERS, Field, Work, nobody};
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::launch::{Launcher, Settings, Transport};
use crate::stats::median;

/// Names the layout of the result.
pub const SCHEMA: &str = "wiglaf-bench/collectives/1";

/// The operations that the program knows, in the order of tables; those from `ibcast` on are non-blocking.
pub const OPERATIONS: [&str; 17] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "ring",
    "halo",
    "ibcast",
    "iallreduce",
    "iallgather",
    "ialltoall",
];

/// Those of them that Wiglaf's multicast collectives take from the MPI, at least when they are short.
pub const MULTICAST: [&str; 4] = ["barrier", "bcast", "allreduce", "allgather"];

/// Shortest length in bytes: one number.
pub const LEN_MIN: u64 = 4;
/// Longest length in bytes that the program takes.
pub const LEN_MAX: u64 = 1 << 24;

/// One run of everything may take so long on a slow network.
const RUN_TIME_MAX: Duration = Duration::from_secs(900);

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Ranks, one on each node while there are nodes enough.
    pub ranks: usize,
    /// Some of [`OPERATIONS`].
    pub operations: Vec<String>,
    /// Bytes: of what one rank sends to one other, or of the whole vector of bcast and reductions.
    pub lengths: Vec<u64>,
    /// Time for each operation and length in one run; five calls are made in any case.
    pub budget: Duration,
    /// Who takes part.
    pub contenders: Vec<Transport>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// All operations from 4 B to 4 MiB, five rounds.
    pub fn new(ranks: usize, cache: PathBuf) -> Self {
        Self {
            rounds: 5,
            ranks,
            operations: OPERATIONS.map(str::to_owned).to_vec(),
            lengths: (1..=11).map(|power| 4u64.pow(power)).collect(),
            budget: Duration::from_millis(40),
            contenders: [&CONTENDERS[..], &[Transport::WiglafMulticast]].concat(),
            cache,
        }
    }
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// Rounds of which the medians were taken.
    pub rounds: usize,
    /// Ranks.
    pub ranks: usize,
    /// Nodes they were spread over.
    pub nodes: usize,
    /// Who took part, and how they did.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
}

/// One contender's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Who.
    pub transport: Transport,
    /// In words.
    pub label: String,
    /// All that set it apart from the others.
    pub settings: Settings,
    /// By operation and length, in the order in which they were measured.
    pub cells: Vec<Cell>,
}

/// One operation of one length: microseconds of a call, medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// One of [`OPERATIONS`].
    pub operation: String,
    /// Bytes.
    pub len: u64,
    /// Mean over ranks and calls.
    pub mean_us: f64,
    /// Mean over the calls of the slowest rank's time.
    pub slowest_us: f64,
    /// Median over the calls of the ranks' mean.
    pub p50_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// What part of a non-blocking operation a computation beside it hid.
    pub overlap: Option<f64>,
}

/// Which of a cell's times to compare by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// [`Cell::mean_us`].
    Mean,
    /// [`Cell::p50_us`].
    Median,
    /// [`Cell::slowest_us`].
    Slowest,
}

impl By {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Mean, Self::Median, Self::Slowest];

    /// What tables call it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Slowest => "slowest rank",
        }
    }

    fn of(self, cell: &Cell) -> f64 {
        match self {
            Self::Mean => cell.mean_us,
            Self::Median => cell.p50_us,
            Self::Slowest => cell.slowest_us,
        }
    }
}

/// Wiglaf beside the rival that did best in a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio<'a> {
    /// Wiglaf's cell.
    pub ours: &'a Cell,
    /// The best rival's.
    pub rival: &'a Cell,
    /// Who that is.
    pub who: &'a str,
    /// Wiglaf's time by its.
    pub ratio: f64,
}

/// All ratios of a report in four numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Geometric mean.
    pub geometric_mean: f64,
    /// The greatest.
    pub worst: f64,
    /// How many are above 1.
    pub slower: usize,
    /// Of how many.
    pub cells: usize,
}

impl Report {
    /// Wiglaf beside the best rival, by cell; cells that only one side has are left out.
    pub fn ratios(&self, by: By) -> Vec<Ratio<'_>> {
        let Some(ours) = self.contenders.iter().find(|c| c.transport == Transport::Wiglaf) else {
            return Vec::new();
        };
        let rivals: Vec<&Contender> =
            self.contenders.iter().filter(|c| c.transport.is_tcp_rival()).collect();
        let best = |ours: &Cell| {
            let same = |cell: &&Cell| cell.operation == ours.operation && cell.len == ours.len;
            let found = rivals
                .iter()
                .filter_map(|rival| Some((rival.cells.iter().find(same)?, rival.label.as_str())));
            found.min_by(|a, b| by.of(a.0).total_cmp(&by.of(b.0)))
        };
        let ratios = ours.cells.iter().filter_map(|ours| {
            let (rival, who) = best(ours)?;
            let ratio = by.of(ours) / by.of(rival);
            Some(Ratio { ours, rival, who, ratio })
        });
        ratios.filter(|one| one.ratio.is_finite()).collect()
    }

    /// This report with Wiglaf's multicast collectives in Wiglaf's place, for what they take from the MPI; `None` where
    /// they were not measured.
    #[must_use]
    pub fn of_multicast(&self) -> Option<Self> {
        let mut ours =
            self.contenders.iter().find(|c| c.transport == Transport::WiglafMulticast)?.clone();
        ours.transport = Transport::Wiglaf;
        ours.cells.retain(|cell| MULTICAST.contains(&cell.operation.as_str()));
        let rivals = self.contenders.iter().filter(|c| c.transport.is_tcp_rival()).cloned();
        let contenders = std::iter::once(ours).chain(rivals).collect();
        Some(Self { contenders, absent: Vec::new(), ..self.clone() })
    }

    /// The ratios of all cells together; `None` without any.
    pub fn total(&self, by: By) -> Option<Total> {
        let ratios: Vec<f64> = self.ratios(by).iter().map(|one| one.ratio).collect();
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        (!ratios.is_empty()).then(|| Total {
            geometric_mean: (logs / ratios.len() as f64).exp(),
            worst: ratios.iter().copied().fold(0.0, f64::max),
            slower: ratios.iter().filter(|ratio| **ratio > 1.0).count(),
            cells: ratios.len(),
        })
    }
}

#[derive(Deserialize)]
struct Line {
    operation: String,
    len: u64,
    mean_ns: f64,
    slowest_ns: f64,
    p50_ns: f64,
    p99_ns: f64,
    overlap: Option<f64>,
}

struct Entry {
    transport: Transport,
    settings: Settings,
    /// By cell, in each the lines of all rounds.
    cells: Vec<Vec<Line>>,
}

/// Runs the plan.
///
/// # Errors
/// When nobody can take part, or the plan names no known operation or length. A contender whose run fails is
/// struck off and reported as absent.
pub fn measure(launcher: &dyn Launcher, plan: &Plan, progress: Progress<'_>) -> Result<Report> {
    plan.check()?;
    let program = MeasuringProgram::Collectives.build(&plan.cache)?;
    let (ranks, dir, time_max) = (plan.ranks, plan.cache.as_path(), RUN_TIME_MAX);
    let work = Work { launcher, ranks, program: &program, dir, time_max };
    let lengths: Vec<String> = plan.lengths.iter().map(u64::to_string).collect();
    let args: Vec<OsString> = vec![
        plan.budget.as_millis().to_string().into(),
        plan.operations.join(",").into(),
        lengths.join(",").into(),
    ];
    let mut field = Field::gather(launcher, &plan.contenders);
    let mut entries: Vec<_> = field.entrants.iter().cloned().map(Entry::new).collect();
    field.run(plan.rounds, progress, &mut |number, transport, settings| {
        entries[number].take(&work.run(transport, settings, &args)?)
    });
    let stayed = entries.into_iter().filter(|e| field.has(e.transport));
    let contenders: Vec<Contender> = stayed.map(Entry::finish).collect();
    let absent = field.absent;
    if contenders.is_empty() {
        return Err(nobody(&absent));
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(launcher.facts()),
        rounds: plan.rounds,
        ranks: plan.ranks,
        nodes: work.nodes(),
        contenders,
        absent,
    })
}

impl Plan {
    fn check(&self) -> Result<()> {
        let wrong = |detail: String| BenchError::Output { what: "the plan".into(), detail };
        if self.operations.is_empty() || self.lengths.is_empty() {
            return Err(wrong("it names nothing to measure".into()));
        }
        if let Some(name) = self.operations.iter().find(|n| !OPERATIONS.contains(&n.as_str())) {
            let all = OPERATIONS.join(", ");
            return Err(wrong(format!("there is no operation {name}; there are {all}")));
        }
        if let Some(len) = self.lengths.iter().find(|len| !(LEN_MIN..=LEN_MAX).contains(len)) {
            return Err(wrong(format!("{len} bytes are not between {LEN_MIN} and {LEN_MAX}")));
        }
        Ok(())
    }
}

impl Entry {
    fn new((transport, settings): (Transport, Settings)) -> Self {
        Self { transport, settings, cells: Vec::new() }
    }

    /// Takes the lines of one run: the same cells in each.
    fn take(&mut self, stdout: &str) -> Result<()> {
        let bad =
            |detail: String| BenchError::Output { what: "the collectives program".into(), detail };
        let lines = stdout.lines().filter(|line| line.starts_with('{'));
        let lines: Vec<Line> = lines
            .map(|line| serde_json::from_str(line).map_err(|e| bad(e.to_string())))
            .collect::<Result<_>>()?;
        let names: HashSet<_> = lines.iter().map(|line| (&line.operation, line.len)).collect();
        if lines.is_empty() || names.len() != lines.len() {
            return Err(bad("it lacks lines, or has some twice".into()));
        }
        if self.cells.is_empty() {
            self.cells.resize_with(lines.len(), Vec::new);
        }
        let like_before = |(cell, line): (&Vec<Line>, &Line)| {
            cell.first().is_none_or(|one| one.operation == line.operation && one.len == line.len)
        };
        if self.cells.len() != lines.len() || !self.cells.iter().zip(&lines).all(like_before) {
            return Err(bad("its lines differ from those of the round before".into()));
        }
        for (cell, line) in self.cells.iter_mut().zip(lines) {
            cell.push(line);
        }
        Ok(())
    }

    fn finish(self) -> Contender {
        let cells = self.cells.iter().filter_map(|lines| {
            let first = lines.first()?;
            let us = |of: fn(&Line) -> f64| {
                let values: Vec<f64> = lines.iter().map(|line| of(line) / 1000.0).collect();
                median(&values)
            };
            let overlaps: Vec<f64> = lines.iter().filter_map(|line| line.overlap).collect();
            Some(Cell {
                operation: first.operation.clone(),
                len: first.len,
                mean_us: us(|line| line.mean_ns)?,
                slowest_us: us(|line| line.slowest_ns)?,
                p50_us: us(|line| line.p50_ns)?,
                p99_us: us(|line| line.p99_ns)?,
                overlap: median(&overlaps),
            })
        });
        Contender {
            transport: self.transport,
            label: self.transport.label().to_owned(),
            cells: cells.collect(),
            settings: self.settings,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn line(operation: &str, len: u64, us: f64) -> String {
        format!(
            "{{\"operation\":\"{operation}\",\"len\":{len},\"calls\":5,\"mean_ns\":{},\"slowest_ns\":{},\
             \"p50_ns\":{},\"p99_ns\":{}}}\n",
            us * 1000.0,
            us * 2000.0,
            us * 500.0,
            us * 3000.0
        )
    }

    /// Two operations of two lengths: Wiglaf halves one and doubles one of the others' times.
    pub(crate) fn report() -> Report {
        let of = |transport, us: [f64; 3]| {
            let mut entry = Entry::new((transport, Settings::new()));
            let cells = [("bcast", 4), ("bcast", 1024), ("ialltoall", 4)];
            let text = |us: [f64; 3]| -> String {
                cells.iter().zip(us).map(|((name, len), us)| line(name, *len, us)).collect()
            };
            for factor in [1.0, 3.0, 0.5] {
                entry.take(&text(us.map(|us| us * factor))).unwrap();
            }
            entry.finish()
        };
        Report {
            schema: SCHEMA.to_owned(),
            facts: crate::facts::Facts::gather(std::collections::BTreeMap::new()),
            rounds: 3,
            ranks: 2,
            nodes: 2,
            contenders: vec![
                of(Transport::Wiglaf, [5.0, 40.0, 8.0]),
                of(Transport::Tcp, [10.0, 20.0, 9.0]),
                of(Transport::Ucx, [12.0, 30.0, 8.0]),
            ],
            absent: vec![],
        }
    }

    #[test]
    fn each_cell_is_beside_the_best_rival_in_it() {
        let report = report();
        for by in By::ALL {
            let ratios = report.ratios(by);
            let found: Vec<_> = ratios.iter().map(|one| (one.ratio, one.who)).collect();
            assert_eq!(
                found,
                [
                    (0.5, Transport::Tcp.label()),
                    (2.0, Transport::Tcp.label()),
                    (1.0, Transport::Ucx.label())
                ]
            );
            let total = report.total(by).unwrap();
            assert!((total.geometric_mean - 1.0).abs() < 1e-9);
            assert_eq!((total.worst, total.slower, total.cells), (2.0, 1, 3));
        }
        let alone = Report { contenders: report.contenders[1..].to_vec(), ..report };
        assert_eq!(alone.total(By::Mean), None);
    }

    #[test]
    fn rounds_must_have_the_same_cells() {
        let mut entry = Entry::new((Transport::Tcp, Settings::new()));
        entry.take(&line("bcast", 4, 1.0)).unwrap();
        for text in [
            String::new(),
            "{\"operation\":\"bcast\"}\n".to_owned(),
            line("bcast", 8, 1.0),
            line("reduce", 4, 1.0),
            line("bcast", 4, 1.0) + &line("bcast", 8, 1.0),
            line("bcast", 4, 1.0) + &line("bcast", 4, 1.0),
        ] {
            assert!(entry.take(&text).is_err(), "{text}");
        }
        entry.take(&line("bcast", 4, 3.0)).unwrap();
        assert_eq!(entry.finish().cells[0].mean_us, 2.0);
    }

    #[test]
    fn a_plan_names_what_there_is() {
        let plan = Plan::new(2, PathBuf::new());
        plan.check().unwrap();
        let with = |operations: &[&str], lengths: &[u64]| Plan {
            operations: operations.iter().map(|name| (*name).to_owned()).collect(),
            lengths: lengths.to_vec(),
            ..plan.clone()
        };
        for (operations, lengths) in
            [(&[][..], &[4][..]), (&["bcast"], &[]), (&["send"], &[4]), (&["bcast"], &[3])]
        {
            assert!(with(operations, lengths).check().is_err(), "{operations:?} {lengths:?}");
        }
    }
}
