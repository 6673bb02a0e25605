//! `wiglaf demo`: what Wiglaf is for, shown on this machine in a minute.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::{Error, Result, program};
use wiglaf_bench::applications::{self, Application, ApplicationId};
use wiglaf_bench::{BenchError, Transport, pingpong};
use wiglaf_mpi::{Link, provider};

use crate::args::Global;
use crate::bench::launcher::Emulated;
use crate::bench::nodes::{Cluster, Wish};
use crate::bench::{interrupt, plain, progress, work_folder};
use crate::output;
use crate::up::this_exe;

/// What must be installed: a program or file, and the package that brings it.
const NEEDED: [(&str, &str); 6] = [
    ("pw.x", "quantum-espresso"),
    ("/usr/share/espresso/pseudo/Si.pz-vbc.UPF", "quantum-espresso-data"),
    ("nwchem.openmpi", "nwchem-openmpi"),
    ("mpirun", "openmpi-bin"),
    ("mpicc", "libopenmpi-dev"),
    ("ip", "iproute2"),
];
const PINGPONG_LENS: [u64; 3] = [8, 1 << 10, 1 << 20];

/// Show what Wiglaf does: two real programs, over TCP and over Wiglaf
///
/// Runs Quantum ESPRESSO and NWChem from Debian's packages, unmodified, on two
/// emulated nodes, and compares their energies and times. Fails when an energy
/// differs by more than 1e-6 or a program fails. Needs root.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each program runs
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,

    /// Print JSON in place of the last table
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Outcome<'a> {
    programs: &'a [Row],
    messages: &'a [Message],
}

/// Half a round trip of one message length.
#[derive(Serialize)]
struct Message {
    len: u64,
    tcp_us: f64,
    wiglaf_us: f64,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    check_needed()?;
    provider::find(&this_exe()?)?;
    let work = work_folder(Path::new("."))?;
    let wish = Wish { nodes: 2, ..Wish::default() };
    let cluster = Cluster::find_or_start(global, &wish)?;
    let launcher = Emulated::new(&cluster, 2, 2, Link::Auto, &work)?;

    let mut rows = Vec::new();
    for id in ApplicationId::ALL {
        rows.push(Row::of(id, run_application(&launcher, id, usize::from(args.repeats), &work)));
        interrupt::check()?;
    }
    progress("messages back and forth between the two nodes");
    let messages = ping(&launcher, &work);
    interrupt::check()?;
    drop(cluster);

    let messages = messages?;
    if args.json {
        output::print_json(&Outcome { programs: &rows, messages: &messages })?;
    } else {
        let messages: String = messages.iter().map(sentence).collect();
        output::print(&format!("\n{messages}\n{}", output::table(&table(&rows))))?;
    }
    match rows.into_iter().find_map(|row| row.failure) {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(error),
    }
}

/// Says all that is missing, each with its mend.
fn check_needed() -> Result<()> {
    let is_there = |what: &str| Path::new(what).is_absolute() && Path::new(what).exists();
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(what, _)| !is_there(what) && program::find_program(what).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for (what, package) in &missing {
        eprintln!("wiglaf: {what} is missing: apt-get install {package}");
    }
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(Error::not_found(format!(
        "the demo needs more programs; run `apt-get install {}`",
        packages.join(" ")
    )))
}

fn run_application(
    launcher: &Emulated<'_>,
    id: ApplicationId,
    rounds: usize,
    work: &Path,
) -> wiglaf_bench::Result<Application> {
    let plan = applications::Plan {
        applications: vec![id],
        rounds,
        ..applications::Plan::new(work.to_owned())
    };
    let mut report = applications::measure(launcher, &plan, &mut progress)?;
    match (report.applications.pop(), report.absent.pop()) {
        (Some(application), None) => Ok(application),
        (_, absent) => Err(BenchError::NoContender(
            absent.map_or_else(|| "no application ran".to_owned(), |absent| absent.reason),
        )),
    }
}

/// A line of the last table.
#[derive(Serialize)]
struct Row {
    program: &'static str,
    energies: &'static str,
    tcp_s: Option<f64>,
    wiglaf_s: Option<f64>,
    #[serde(skip)]
    failure: Option<Error>,
}

impl Row {
    fn of(id: ApplicationId, outcome: wiglaf_bench::Result<Application>) -> Self {
        let program = match id {
            ApplicationId::Espresso => "Quantum ESPRESSO",
            ApplicationId::Nwchem => "NWChem",
        };
        match outcome {
            Ok(application) => {
                let wall = |transport| {
                    let run = application.runs.iter().find(|run| run.transport == transport);
                    run.map(|run| run.wall_s)
                };
                let (tcp_s, wiglaf_s) = (wall(Transport::Tcp), wall(Transport::Wiglaf));
                Self { program, energies: "yes", tcp_s, wiglaf_s, failure: None }
            }
            Err(error) => {
                let differ = matches!(error, BenchError::EnergiesDiffer { .. });
                let energies = if differ { "NO" } else { "failed" };
                let failure = Some(plain(error));
                Self { program, energies, tcp_s: None, wiglaf_s: None, failure }
            }
        }
    }
}

fn table(rows: &[Row]) -> Vec<Vec<String>> {
    let heading = ["program", "energy equal?", "over TCP", "over Wiglaf", "time ratio"];
    let seconds = |s: Option<f64>| s.map_or("-".to_owned(), |s| format!("{s:.2} s"));
    let line = |row: &Row| {
        let ratio = row.wiglaf_s.zip(row.tcp_s).map(|(ours, tcp)| format!("{:.2}", ours / tcp));
        vec![
            row.program.to_owned(),
            row.energies.to_owned(),
            seconds(row.tcp_s),
            seconds(row.wiglaf_s),
            ratio.unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let heading = heading.map(str::to_owned).to_vec();
    std::iter::once(heading).chain(rows.iter().map(line)).collect()
}

fn sentence(message: &Message) -> String {
    let Message { len, tcp_us, wiglaf_us } = message;
    let length = wiglaf_bench::report::length(*len);
    format!("a message of {length} takes {tcp_us:.1} us over TCP, {wiglaf_us:.1} us over Wiglaf\n")
}

/// A few message lengths over both.
fn ping(launcher: &Emulated<'_>, work: &Path) -> Result<Vec<Message>> {
    let plan = pingpong::Plan {
        cores: Vec::new(),
        rounds: 2,
        lens: PINGPONG_LENS.to_vec(),
        budget: Duration::from_millis(100),
        contenders: vec![Transport::Wiglaf, Transport::Tcp],
        cache: work.to_owned(),
    };
    let report = pingpong::measure(launcher, &plan, &mut |_| {}).map_err(plain)?;
    if let Some(absent) = report.absent.first() {
        let who = absent.transport.label();
        return Err(Error::new(format!("{who} carried no messages: {}", absent.reason)));
    }
    let median = |transport, len| {
        let contender = report.contenders.iter().find(|c| c.transport == transport)?;
        Some(contender.at(len)?.half_round_trip.p50_us)
    };
    let lines = PINGPONG_LENS.iter().filter_map(|&len| {
        Some(Message {
            len,
            tcp_us: median(Transport::Tcp, len)?,
            wiglaf_us: median(Transport::Wiglaf, len)?,
        })
    });
    Ok(lines.collect())
}
