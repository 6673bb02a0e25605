//! More ranks than cores, and strangers on the cores: what becomes of a
//! transport whose way of waiting takes the core from those it waits for.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::CONTENDERS;
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::grid::Grid;
use crate::launch::{Launcher, Transport};
use crate::outcome::{Better, Case, Entry, Figure, Missing, Outcome, Wanted};
use crate::stats::Samples;
use crate::turns::{Around, Contestant, Task, Turns, results};

const RUN_TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of a token, and for each rank of an all-to-all.
const LEN: u64 = 8;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Rounds of the application beside strangers; alone it has as many as everything else.
    /// 0 leaves it out.
    pub application_rounds: usize,
    /// Time for each run of a ring or an all-to-all.
    pub budget: Duration,
    /// Who takes part.
    pub contestants: Vec<Contestant>,
    /// Where the measuring programs are built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, ten rounds of 300 ms.
    pub fn new(cache: PathBuf) -> Self {
        Self {
            rounds: 10,
            application_rounds: 2,
            budget: Duration::from_millis(300),
            contestants: CONTENDERS.map(Contestant::from).to_vec(),
            cache,
        }
    }
}

#[derive(Deserialize)]
struct Line {
    loop_ns: u64,
    step_ns: Vec<(u64, u64)>,
}

/// Who else wants the cores.
const COMPANY: [&str; 2] = ["alone", "beside strangers"];

/// A whole program with so many ranks, in so many rounds over each transport: the wall time of every round, and who
/// could not take part.
pub type Program<'a> = &'a dyn Fn(usize, usize, &[Transport]) -> Result<(Vec<Entry>, Vec<Missing>)>;

/// Runs the plan with as many ranks as each launcher is for, and Quantum ESPRESSO by `program`; `strangers`
/// keeps every core busy for as long as its guard lives.
///
/// # Errors
/// When nobody can take part.
pub fn measure(
    jobs: &[(usize, &dyn Launcher)],
    strangers: Around<'_>,
    program: Program<'_>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let first = jobs.first().ok_or_else(|| BenchError::NoContender("no ranks".to_owned()))?.1;
    let mut turns = Turns::gather(first, &plan.contestants, plan.rounds, &plan.cache, progress)?;
    let ring = MeasuringProgram::Ring.build(&plan.cache)?;
    let budget_ms = u64::try_from(plan.budget.as_millis()).unwrap_or(u64::MAX);
    let mut tasks = Vec::new();
    for company in COMPANY {
        for &(ranks, launcher) in jobs {
            for (to_all, what) in ["ring", "all-to-all"].into_iter().enumerate() {
                let name = format!("{what}, {ranks} ranks, {company}");
                let args = vec![budget_ms, LEN, to_all as u64];
                let around = (company != COMPANY[0]).then_some(strangers);
                let two = Task::of_two(name, launcher, &ring, args, RUN_TIME_MAX);
                tasks.push(Task { ranks, around, ..two });
            }
        }
    }
    let mut grid = Grid::new(tasks.len(), turns.runners.len());
    turns.run(&tasks, progress, &mut |task, runner, text| {
        let line: Line = results("the ring program", text)?.remove(0);
        let samples = Samples::from_pairs(line.step_ns);
        // A median of steps does not see a collapse that comes and goes.
        let mean_us = line.loop_ns as f64 / samples.count().max(1) as f64 / 1000.0;
        grid.at(task, runner).push(mean_us).merge(&samples);
        Ok(())
    })?;
    let title = "More ranks than cores, alone and beside a busy stranger on each core";
    let mut outcome =
        Outcome::new("oversubscribed", title, Facts::gather(first.facts()), plan.rounds);
    for (number, task) in tasks.iter().enumerate() {
        let mut case = Case::new(&task.name, "mean time of a step", "us", Better::Less);
        grid.fill(number, &turns, &task.name, &mut case);
        outcome.figures.push(figure(&case, 0.7));
        outcome.cases.push(case);
    }
    outcome.absent = turns.missing;
    let mut transports: Vec<Transport> = plan.contestants.iter().map(|c| c.transport).collect();
    let mut espresso = |(ranks, launcher), rounds, company, transports: &[Transport]| {
        let case = Espresso { launcher, ranks, rounds, company };
        case.run(plan, program, transports, &mut outcome)
    };
    let best = espresso(jobs[0], plan.rounds, COMPANY[0], &transports);
    for job in &jobs[1..] {
        // With more ranks a round takes more than a minute: where there is time for one.
        espresso(*job, plan.application_rounds / 2, COMPANY[0], &transports);
    }
    // Beside strangers each run takes a minute: we meet whoever was the best without them.
    if let Some(best) = best {
        transports.retain(|&one| one == best || !one.is_tcp_rival());
    }
    let _guard = strangers()?;
    espresso(jobs[0], plan.application_rounds, COMPANY[1], &transports);
    Ok(outcome)
}

fn figure(case: &Case, most: f64) -> Figure {
    let rival = case.best_rival().map_or("", |rival| rival.who.as_str());
    let detail = format!("of the time of the best over TCP, {rival}");
    Figure::ratio(&case.name, Wanted::AtMost(most), case.ratio_to_best(), detail)
}

/// The figure of the application: where only one rival has run, it is not called the best.
fn espresso_figure(
    case: &Case,
    rival: Option<Transport>,
    rounds: usize,
    transports: &[Transport],
) -> Figure {
    let mut figure = figure(case, 1.0);
    if let (Some(rival), 1) = (rival, transports.iter().filter(|t| t.is_tcp_rival()).count()) {
        let rounds = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
        figure.detail = format!(
            "of the time of {}, the only rival that was run, {rounds}: the best without strangers",
            rival.label()
        );
    }
    figure
}

/// The application with so many ranks.
struct Espresso<'a> {
    launcher: &'a dyn Launcher,
    ranks: usize,
    rounds: usize,
    company: &'static str,
}

impl Espresso<'_> {
    /// Runs it, unless it is not installed; answers which rival was the best.
    fn run(
        &self,
        plan: &Plan,
        program: Program<'_>,
        transports: &[Transport],
        outcome: &mut Outcome,
    ) -> Option<Transport> {
        let name = format!("Quantum ESPRESSO, {} ranks, {}", self.ranks, self.company);
        if plan.application_rounds == 0 || self.rounds == 0 || self.launcher.is_interrupted() {
            return None;
        }
        let measured = program(self.ranks, self.rounds, transports).map_err(|error| {
            let (who, reason) = ("everybody".to_owned(), error.to_string());
            outcome.absent.push(Missing { who, case: Some(name.clone()), reason });
        });
        let (entries, missing) = measured.ok()?;
        let mut case = Case::new(&name, "wall time", "s", Better::Less);
        case.entries = entries;
        let best = case.best_rival().and_then(|rival| rival.transport);
        outcome.figures.push(espresso_figure(&case, best, self.rounds, transports));
        outcome.cases.push(case);
        let of_case = missing.into_iter().map(|one| Missing { case: Some(name.clone()), ..one });
        outcome.absent.extend(of_case);
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_rival_is_not_called_the_best() {
        let entry = |who: Transport, s| Entry::of_rounds(who.label(), Some(who), vec![s]);
        let mut case = Case::new("a case", "wall time", "s", Better::Less);
        case.entries = vec![entry(Transport::Wiglaf, 1.0), entry(Transport::Tcp, 4.0)];
        let rival = Some(Transport::Tcp);
        let one = [Transport::Wiglaf, Transport::Tcp];
        let figure = espresso_figure(&case, rival, 2, &one);
        assert_eq!(figure.reached, Some(0.25));
        let words = "of the time of Open MPI TCP, the only rival that was run, 2 rounds: the best \
                     without strangers";
        assert_eq!(figure.detail, words);
        let all = [Transport::Wiglaf, Transport::Tcp, Transport::Ucx];
        let figure = espresso_figure(&case, rival, 10, &all);
        assert_eq!(figure.detail, "of the time of the best over TCP, Open MPI TCP");
    }
}
