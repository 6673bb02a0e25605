//! `wiglaf demo`: what Wiglaf is for, shown on this machine in a minute.

use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::{Error, Result};
use wiglaf_bench::{Launcher as _, Transport, pingpong};
use wiglaf_compare::Report;
use wiglaf_compare::programs::Program;
use wiglaf_link::LinkKind;
use wiglaf_mpi::provider;

use crate::bench::launcher::Emulated;
use crate::compare::Nodes;
use crate::compare::known::{Plan, check_needed, compare};
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, plain, progress, work_folder};
use crate::options::Global;
use crate::output;
use crate::up::this_exe;

/// What must be installed besides the programs, and the package that brings it.
const NEEDED: [(&str, &str); 3] =
    [("mpirun", "openmpi-bin"), ("mpicc", "libopenmpi-dev"), ("ip", "iproute2")];
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

    /// Print JSON in place of the tables
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Outcome {
    programs: Vec<Report>,
    messages: Vec<Message>,
}

/// Half a round trip of one message length.
#[derive(Serialize)]
struct Message {
    len: u64,
    tcp_us: f64,
    wiglaf_us: f64,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let needs: Vec<_> =
        Program::ALL.iter().flat_map(|one| one.needs).chain(&NEEDED).copied().collect();
    check_needed(&needs, "the demo")?;
    provider::find(&this_exe()?)?;
    let work = work_folder(Path::new("."))?;
    let wish = Wish { nodes: 2, ..Wish::default() };
    let cluster = Rc::new(Cluster::find_or_start(global, &wish)?);
    let launcher = Emulated::new(&cluster, 2, 2, LinkKind::Auto, &work)?;
    let plan = Plan {
        nodes: &[2],
        repeats: usize::from(args.repeats),
        transports: &[Transport::Tcp, Transport::Wiglaf],
        link: LinkKind::Auto,
        work: &work,
        settings: launcher.settings(Transport::Wiglaf).map_err(Error::new)?,
    };

    let (mut programs, mut failure) = (Vec::new(), None);
    for program in &Program::ALL {
        let compared = compare(program, &plan, &Nodes::Emulated(cluster.clone()));
        interrupt::check()?;
        let compared = compared?;
        if !args.json {
            output::print(&format!("\n{}", compared.text))?;
        }
        let (report, verdict) = compared.verdict();
        failure = failure.or(verdict.err());
        programs.push(report);
    }
    progress("messages back and forth between the two nodes");
    let messages = ping(&launcher, &work);
    interrupt::check()?;
    let messages = messages?;
    if args.json {
        output::print_json(&Outcome { programs, messages })?;
    } else {
        output::print(&messages.iter().map(sentence).collect::<String>())?;
    }
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
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
