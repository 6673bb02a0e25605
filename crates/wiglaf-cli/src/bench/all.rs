//! The whole set within a given time: every benchmark as a command of its own,
//! with as many rounds as the time allows, and one table of all figures.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use wiglaf_base::error::Context;
use wiglaf_base::{End, Error, Result};
use wiglaf_bench::facts::Facts;
use wiglaf_bench::outcome::{Figure, Outcome, Wanted};
use wiglaf_bench::{bandwidth, collectives, figures, pingpong, report};
use wiglaf_sim::Star;

use super::{Programs, need_openmpi};
use crate::measuring::{make_folder, plain, progress};
use crate::options::Global;
use crate::output;
use crate::up::this_exe;

const HELP: &str = "\
Examples:
  wiglaf bench all                     everything, in at most 20 minutes
  wiglaf bench all --minutes 60        the same, each with 10 repeats
  wiglaf bench all --minutes 8 --output bench/results

The time is shared out: where it is short, there are fewer repeats, and what
does not fit is left out and said to be not measured. Results of an earlier run
in the folder are replaced one by one. A cluster that is up is used only if it
is like one that would be started: no rate, MTU 1500, each node on its core.";

/// The whole set, within a given time
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct AllArgs {
    /// How long it may take
    #[arg(long, default_value_t = 20, value_name = "MINUTES",
          value_parser = clap::value_parser!(u64).range(2..=600))]
    minutes: u64,

    /// Folder for the results
    #[arg(long, short, value_name = "DIR", default_value = "wiglaf-bench")]
    output: PathBuf,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// One benchmark of the set.
struct Step {
    /// The command's word and its arguments.
    args: &'static [&'static str],
    /// Where its results go, below the folder.
    place: &'static str,
    /// What a run takes besides its rounds, and each round, on two cores.
    fixed_s: f64,
    round_s: f64,
    /// How many rounds it has where there is time: of an hour [`ROUNDS_MAX`].
    rounds: u32,
    found: fn(&Path) -> Result<Found>,
}

/// What a step has to say in the table of all.
struct Found {
    figures: Vec<Figure>,
    /// The nodes that it ran on.
    place: Option<String>,
    /// Who could not take part, and why.
    absent: Vec<String>,
}

impl Found {
    fn new(figures: Vec<Figure>, facts: &Facts, absent: &[impl ToString]) -> Self {
        let absent = absent.iter().map(ToString::to_string).collect();
        Self { figures, place: facts.place(), absent }
    }
}

/// More say nothing new.
const ROUNDS_MAX: u32 = 10;

const STEPS: [Step; 16] = [
    Step {
        args: &["pingpong", "--wire", "bridge"],
        place: "",
        fixed_s: 14.0,
        round_s: 18.0,
        rounds: 10,
        found: |dir| of_pingpong(dir, false),
    },
    Step {
        args: &["pingpong", "--wire", "direct", "--sizes", "8"],
        place: "direct",
        fixed_s: 14.0,
        round_s: 6.0,
        rounds: 10,
        found: |dir| of_pingpong(dir, true),
    },
    Step {
        args: &["pingpong", "--links", "auto,packet,xdp,udp", "--sizes", "8,1K,16K,64K,256K,1M"],
        place: "links",
        fixed_s: 14.0,
        round_s: 5.0,
        rounds: 6,
        found: |dir| {
            let report: pingpong::Report = read(dir, "pingpong")?;
            let figures = vec![figures::of_links(&report)];
            Ok(Found::new(figures, &report.facts, &report.absent))
        },
    },
    Step {
        args: &["bandwidth", "--sizes", "8,64,1K,16K,64K,1M"],
        place: "",
        fixed_s: 7.0,
        round_s: 14.0,
        rounds: 10,
        found: |dir| {
            let report: bandwidth::Report = read(dir, "bandwidth")?;
            let figures = figures::of_bandwidth(&report, "");
            Ok(Found::new(figures, &report.facts, &report.absent))
        },
    },
    Step {
        // Reported, and nothing is wanted of it.
        args: &["bandwidth", "--sizes", "8,64K,1M", "--single-frames"],
        place: "single-frames",
        fixed_s: 7.0,
        round_s: 9.0,
        rounds: 3,
        found: |dir| {
            let report: bandwidth::Report = read(dir, "bandwidth")?;
            Ok(Found::new(Vec::new(), &report.facts, &report.absent))
        },
    },
    Step { args: &["shaped"], place: "", fixed_s: 8.0, round_s: 26.0, rounds: 5, found: of::<0> },
    Step { args: &["loss"], place: "", fixed_s: 8.0, round_s: 70.0, rounds: 2, found: of::<1> },
    Step { args: &["incast"], place: "", fixed_s: 10.0, round_s: 24.0, rounds: 4, found: of::<2> },
    Step {
        args: &["flow-control"],
        place: "",
        fixed_s: 8.0,
        // 4, and 22 where the run without is cut off.
        round_s: 10.0,
        rounds: 5,
        found: of::<3>,
    },
    Step {
        args: &["oversubscribed"],
        place: "",
        // Quantum ESPRESSO beside strangers takes a minute for each five rounds.
        fixed_s: 130.0,
        round_s: 46.0,
        rounds: 3,
        found: of::<4>,
    },
    Step { args: &["idle"], place: "", fixed_s: 6.0, round_s: 18.0, rounds: 5, found: of::<5> },
    Step { args: &["memory"], place: "", fixed_s: 10.0, round_s: 30.0, rounds: 1, found: of::<6> },
    Step {
        args: &["applications"],
        place: "",
        fixed_s: 3.0,
        round_s: 10.0,
        rounds: 5,
        found: |dir| {
            let report: Programs = read(dir, "applications")?;
            Ok(Found::new(report.figures(), &report.facts, &report.absent))
        },
    },
    Step {
        args: &["collectives", "--quick", "--nodes", "2"],
        place: "collectives-2",
        fixed_s: 5.0,
        round_s: 12.0,
        rounds: 2,
        found: |dir| of_collectives(dir, 0.55, 1.0),
    },
    Step {
        args: &["collectives", "--quick", "--nodes", "4"],
        place: "collectives-4",
        fixed_s: 5.0,
        round_s: 16.0,
        rounds: 2,
        found: |dir| of_collectives(dir, 0.65, 1.1),
    },
    Step {
        args: &["collectives", "--quick", "--nodes", "8", "--rate", "1gbit"],
        place: "collectives-8",
        fixed_s: 5.0,
        round_s: 40.0,
        rounds: 1,
        found: |dir| of_collectives(dir, 0.6, 1.1),
    },
];

fn of_collectives(dir: &Path, mean_most: f64, worst_most: f64) -> Result<Found> {
    let report: collectives::Report = read(dir, "collectives")?;
    let figures = figures::of_collectives(&report, mean_most, worst_most);
    Ok(Found::new(figures, &report.facts, &report.absent))
}

/// The benchmarks with cases, in the order of their steps.
const OUTCOMES: [&str; 7] =
    ["shaped", "loss", "incast", "flow-control", "oversubscribed", "idle", "memory"];

fn of<const N: usize>(dir: &Path) -> Result<Found> {
    let outcome: Outcome = read(dir, OUTCOMES[N])?;
    let (facts, absent) = (&outcome.facts, &outcome.absent);
    Ok(Found::new(outcome.figures.clone(), facts, absent))
}

fn of_pingpong(dir: &Path, direct: bool) -> Result<Found> {
    let report: pingpong::Report = read(dir, "pingpong")?;
    let figures = figures::of_pingpong(&report, direct);
    Ok(Found::new(figures, &report.facts, &report.absent))
}

fn read<R: serde::de::DeserializeOwned>(dir: &Path, name: &str) -> Result<R> {
    report::read(&dir.join(format!("{name}.json"))).map_err(plain)
}

/// What came of it all, as it is written down.
#[derive(Debug, Serialize)]
struct All {
    schema: &'static str,
    facts: Facts,
    seconds: f64,
    figures: Vec<Figure>,
    /// What each benchmark ran on, in words.
    places: Vec<String>,
    /// Benchmarks without a result, and why.
    absent: Vec<String>,
    /// Contenders without a result in a benchmark, and why.
    contenders_absent: Vec<String>,
}

pub(super) fn run(args: &AllArgs, global: &Global) -> Result<()> {
    need_openmpi()?;
    make_folder(&args.output)?;
    let began = Instant::now();
    let deadline = began + Duration::from_secs(60 * args.minutes);
    let (mut figures, mut absent) = (Vec::new(), Vec::new());
    let (mut places, mut contenders_absent) = (Vec::new(), Vec::new());
    for (number, step) in STEPS.iter().enumerate() {
        let name = step.args.join(" ");
        let dir = args.output.join(step.place);
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(rounds) = rounds(&STEPS[number..], left) else {
            absent.push(format!("{name}: there was no time left"));
            continue;
        };
        progress(&format!(
            "{} of {}: bench {name}, {rounds} rounds; {:.1} minutes left",
            number + 1,
            STEPS.len(),
            left.as_secs_f64() / 60.0
        ));
        let made = one(step, rounds, &dir, global).and_then(|()| (step.found)(&dir));
        match made {
            Ok(found) => {
                figures.extend(found.figures);
                places.extend(found.place.map(|place| format!("{name}: {place}")));
                let named = found.absent.iter().map(|line| format!("{name}: {line}"));
                contenders_absent.extend(named);
            }
            Err(error) if error.exit_status() > 128 => return Err(error),
            Err(error) => absent.push(format!("{name}: {error}")),
        }
    }
    progress("simulating 10,000 peers");
    figures.extend(scale().map_err(|why| absent.push(format!("10,000 peers: {why}"))).ok());
    let seconds = began.elapsed().as_secs_f64();
    let facts = Facts::gather(std::collections::BTreeMap::new());
    let schema = "wiglaf-bench/figures/1";
    let all = All { schema, facts, seconds, figures, places, absent, contenders_absent };
    write(&all, args)
}

/// How many rounds the first of these steps gets: the time that is left is
/// shared out among all of them, and what is more than they want brings each nearer to
/// [`ROUNDS_MAX`]. None if there is not time for one.
fn rounds(steps: &[Step], left: Duration) -> Option<u32> {
    let first = steps.first()?;
    let left_s = left.as_secs_f64();
    let fixed: f64 = steps.iter().map(|step| step.fixed_s).sum();
    let wanted: f64 = steps.iter().map(|step| step.round_s * f64::from(step.rounds)).sum();
    let most: f64 = steps.iter().map(|step| step.round_s * f64::from(ROUNDS_MAX)).sum();
    let share = ((left_s - fixed) / wanted).clamp(0.0, 1.0);
    let extra = ((left_s - fixed - wanted) / (most - wanted).max(1.0)).clamp(0.0, 1.0);
    let all = f64::from(first.rounds) * share + f64::from(ROUNDS_MAX - first.rounds) * extra;
    let rounds = (all as u32).max(1);
    (first.fixed_s + first.round_s <= left_s).then_some(rounds)
}

fn one(step: &Step, rounds: u32, dir: &Path, global: &Global) -> Result<()> {
    make_folder(dir)?;
    let mut command = Command::new(this_exe()?);
    command.arg("--state").arg(global.state_dir().path()).arg("bench");
    command.args(["--parent", &std::process::id().to_string()]).args(step.args);
    command.args(["--as-usual", "--repeats", &rounds.to_string(), "--output"]).arg(dir);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .cannot(|| format!("run bench {}", step.args.join(" ")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Error::new(format!("it ended with status {code}, see above"))
            .with_status(u8::try_from(code).unwrap_or(1))),
        None => Err(Error::new("it was killed").with_status(137)),
    }
}

/// Has this command end, as by a signal, when that which has started it does: a step would else
/// go on for nobody. An argument tells of it and not the environment, which goes on to ranks.
pub(super) fn end_with(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .cannot(|| "ask for a signal when bench all ends".to_owned())?;
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if u32::try_from(now) == Ok(parent) {
        return Ok(());
    }
    // It ended before that could be asked for.
    let status = End::Signal(Signal::TERM.as_raw()).code();
    Err(Error::new("bench all has ended").with_status(status))
}

/// Host time of the transport for a message, among many peers and among two.
fn scale() -> std::result::Result<Figure, String> {
    const PEERS: usize = 10_000;
    const ROUNDS: usize = 5;
    const CONVERSATIONS: u64 = 2000;
    const IN_A_ROW: u64 = 16;
    let began = Instant::now();
    let mut clock = || began.elapsed().as_nanos() as u64;
    let mut stars = [Star::new(1, 2), Star::new(1, PEERS)];
    let mut ratios = Vec::new();
    for _ in 0..=ROUNDS {
        let [few, many] = &mut stars;
        let few = few.run(CONVERSATIONS, IN_A_ROW, &mut clock)?.host_per_message;
        let many = many.run(CONVERSATIONS, IN_A_ROW, &mut clock)?.host_per_message;
        ratios.push(many / few);
    }
    // The first round only warms up.
    let reached = wiglaf_bench::stats::median(&ratios[1..]);
    let detail = format!("of that with 2 peers, {IN_A_ROW} messages in a row with each");
    let name = "10,000 simulated peers, host cost of a message";
    Ok(Figure::ratio(name, Wanted::AtMost(1.2), reached, detail))
}

fn write(all: &All, args: &AllArgs) -> Result<()> {
    let folder = &args.output;
    report::write(all, &folder.join("figures.json")).map_err(plain)?;
    let file = folder.join("figures.md");
    std::fs::write(&file, markdown(all)).cannot(|| format!("write {}", file.display()))?;
    match args.json {
        true => output::print_json(all)?,
        false => output::print(&report::figures_table(&all.figures))?,
    }
    all.absent.iter().for_each(|line| eprintln!("wiglaf: not measured: {line}"));
    all.contenders_absent.iter().for_each(|line| eprintln!("wiglaf: {line}"));
    eprintln!("wiglaf: written {}", file.display());
    Ok(())
}

fn markdown(all: &All) -> String {
    let met = all.figures.iter().filter(|figure| figure.is_met() == Some(true)).count();
    let heading = format!(
        "{} in {:.1} minutes: {met} of {} figures reached. Medians of interleaved rounds, {} cores, {}.\n\n",
        all.facts.date,
        all.seconds / 60.0,
        all.figures.len(),
        all.facts.cores,
        all.facts.kernel
    );
    let mut text = heading + &report::figures_markdown(&all.figures);
    let absent = all.absent.iter().map(|one| format!("Not measured: {one}"));
    let places = all.places.iter().map(|one| format!("Nodes of {one}"));
    for line in absent.chain(all.contenders_absent.iter().cloned()).chain(places) {
        text.push_str(&format!("\n{}\n", line.replace('\n', " ").replace('|', "/")));
    }
    text
}

#[cfg(test)]
mod tests {
    use wiglaf_bench::outcome::Missing;

    use super::*;

    #[test]
    fn the_table_names_who_was_absent_and_what_the_nodes_were() {
        let facts = Facts {
            nodes: [("cluster".to_owned(), "node[1-2], mtu 9000".to_owned())].into(),
            ..Facts::gather(std::collections::BTreeMap::new())
        };
        let absent = Missing {
            who: "UCX TCP".to_owned(),
            case: Some("lossy wire".to_owned()),
            reason: "not done | after 60 s".to_owned(),
        };
        let found = Found::new(Vec::new(), &facts, &[absent]);
        let all = All {
            schema: "",
            facts,
            seconds: 60.0,
            figures: found.figures,
            places: found.place.map(|place| format!("loss: {place}")).into_iter().collect(),
            absent: vec!["idle: there was no time left".to_owned()],
            contenders_absent: found.absent,
        };
        let text = markdown(&all);
        for line in [
            "Not measured: idle: there was no time left",
            "UCX TCP did not take part in \"lossy wire\": not done / after 60 s",
            "Nodes of loss: node[1-2], mtu 9000",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn twenty_minutes_are_enough_and_little_time_means_few_rounds() {
        let of = |minutes: u64| rounds(&STEPS, Duration::from_secs(60 * minutes));
        assert!(of(20) >= Some(7), "{:?}", of(20));
        assert_eq!((of(60), of(4), rounds(&STEPS, Duration::ZERO)), (Some(10), Some(1), None));
        for first in 0..STEPS.len() {
            let left = |minutes: u64| rounds(&STEPS[first..], Duration::from_secs(60 * minutes));
            assert_eq!(left(60), Some(ROUNDS_MAX), "an hour is enough for ten each");
        }
        assert_eq!(rounds(&[], Duration::from_secs(1000)), None);
    }
}
