//! `wiglaf compare`: a user's program over every transport, in interleaved rounds.

pub(crate) mod known;
mod runs;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use wiglaf_base::{Error, Result, machine, program};
use wiglaf_bench::Transport;
use wiglaf_bench::facts::Facts;
use wiglaf_bench::report::{self, SpeedUpCurve, SpeedUpWords};
use wiglaf_cluster::cluster::{all_or_error, ask_all};
use wiglaf_cluster::launch::Mpi;
use wiglaf_compare::{Check, Failure, Place, Report, Way, notes, tables};
use wiglaf_link::LinkKind;
use wiglaf_mpi::{self as mpi, Deal};

use crate::choices::{Word, any, carrier, parse_mpi, parse_variable};
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, plain};
use crate::options::{Global, typed};
use crate::output;
use crate::up::this_exe;
use crate::which::Meant;
use runs::Runner;

const HELP: &str = "\
Examples:
  wiglaf compare -n 2 -- ./prog in.dat           every transport, three rounds
  wiglaf compare --nodes 1,2,4 -- ./prog in.dat  speed-up, and Amdahl's P
  wiglaf compare --transports tcp,wiglaf --repeats 7 -- ./prog in.dat
  wiglaf compare --transports tcp,wiglaf,wiglaf-multicast -- ./prog in.dat
  wiglaf compare --weak --nodes 1,2,4 -- ./prog --per-rank 24
                                                 work that grows with the nodes
  wiglaf compare --check '!.*energy:1e-8' -- pw.x -in si.in
  wiglaf compare --mpi mpich --nodes 1,2,4 --plot speed-up.svg -- ./prog
  wiglaf compare --stage --input in.dat -- ./prog in.dat
                                                 on hosts that share no folder

The program is the same for all, and unchanged. In each round every transport
has its turn, in an order that changes. Wall time is the life of the longest
rank, without the launcher; CPU time is what the kernel says that a rank took,
user and system, as the mean of all ranks. --check takes the last match of a
regular expression, and the number in its first group, or behind the match; it
fails where two runs differ by more than TOL [default: 0]. What a run may be too
coarse to tell is said below the tables. See docs/compare.md.";

/// Run your program over every transport, and compare the times
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Numbers of nodes [default: 2, or all hosts]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count)]
    nodes: Vec<usize>,

    /// How many ranks, on however many nodes [default: one on every node]
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = count)]
    ranks: Option<usize>,

    /// How many ranks on every node
    #[arg(long, value_name = "RANKS", value_parser = count, conflicts_with = "ranks")]
    per_node: Option<usize>,

    /// Weak scaling: each node has the same work on any number of nodes
    #[arg(long)]
    weak: bool,

    /// How many rounds
    #[arg(long, value_name = "N", default_value = "3", value_parser = count)]
    repeats: usize,

    /// Which transports [default: tcp,ucx,ofi-tcp,wiglaf, those that are here]
    #[arg(long, value_name = "LIST", value_parser = any::<Transport>(), value_delimiter = ',')]
    transports: Vec<Transport>,

    /// A number that must be the same in all runs
    #[arg(long, value_name = "REGEX[:TOL]")]
    check: Option<Check>,

    /// Write all runs to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the speed-up into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Which MPI starts the program: openmpi, mpich or intel
    #[arg(long, value_name = "MPI", default_value = "openmpi", value_parser = mpi_text)]
    mpi: String,

    /// Which of Wiglaf's links
    #[arg(long, value_parser = any::<LinkKind>(), default_value = "auto")]
    link: LinkKind,

    /// How ranks are dealt to nodes
    #[arg(long, value_parser = any::<Deal>(), default_value = "cyclic")]
    deal: Deal,

    /// Copy the program to each host's scratch folder: as for `wiglaf run`
    #[arg(long)]
    stage: bool,

    /// Mount this host's working folder on the other hosts: as for `wiglaf run`
    #[arg(long, conflicts_with = "stage")]
    share: bool,

    /// With --stage: copy this file along
    #[arg(long, value_name = "FILE", requires = "stage")]
    input: Vec<PathBuf>,

    /// Set a variable for all ranks
    #[arg(short = 'x', long = "env", value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    env: Vec<(String, String)>,

    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

fn count(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=4096).contains(count));
    count.ok_or_else(|| "give a number from 1 to 4096".to_owned())
}

fn mpi_text(text: &str) -> Result<String> {
    match parse_mpi(text)? {
        Mpi::With(_) => Ok(text.to_owned()),
        Mpi::None => Err(Error::new("a program without MPI has nothing to compare")),
    }
}

/// What is taken unless the user says otherwise.
const USUAL: [Transport; 4] =
    [Transport::Tcp, Transport::Ucx, Transport::OfiTcp, Transport::Wiglaf];

/// Other MPIs than Open MPI have a TCP of their own, too.
fn label(one: Transport) -> &'static str {
    if one == Transport::Tcp { "TCP" } else { one.label() }
}

/// Where the program runs.
pub(crate) enum Nodes {
    Emulated(Rc<Cluster>),
    Hosts(Box<wiglaf_cluster::hosts::Hosts>, Vec<usize>),
}

impl Nodes {
    fn find(args: &Args, global: &Global) -> Result<Self> {
        let most = args.nodes.iter().copied().max();
        match global.meant()? {
            Meant::Hosts(hosts) => {
                interrupt::listen()?;
                let there = hosts.nodes.len();
                if let Some(most) = most.filter(|most| *most > there) {
                    return Err(Error::new(format!(
                        "{} has {there} hosts, not {most}; add some with `wiglaf join HOST`, or ask for fewer \
                         with --nodes",
                        hosts.file.display()
                    )));
                }
                let all = wiglaf_cluster::Cluster::Hosts(hosts.clone());
                let mut members = all.members(&Default::default())?;
                members.truncate(most.unwrap_or(there));
                let asked = ask_all(&members, |member| member.node.hello());
                let hellos = all_or_error(&members, asked)?;
                let cores =
                    hellos.iter().map(|hello| hello.host.as_ref().map_or(1, |host| host.cores));
                Ok(Self::Hosts(Box::new(hosts), cores.collect()))
            }
            Meant::Emulated(_) => {
                wiglaf_cluster::launch::check_working_folder()?;
                let wish = Wish { nodes: most.unwrap_or(2), ..Wish::default() };
                Cluster::find_or_start(global, &wish).map(Rc::new).map(Self::Emulated)
            }
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Emulated(cluster) => {
                cluster.record.shape.nodes.iter().map(|node| node.name.clone()).collect()
            }
            Self::Hosts(hosts, _) => hosts.nodes.iter().map(|spec| spec.name.clone()).collect(),
        }
    }

    /// The cores of the first so many.
    fn cores(&self, count: usize) -> usize {
        match self {
            Self::Hosts(_, cores) => cores.iter().take(count).sum(),
            Self::Emulated(cluster) => {
                let of = cluster.record.shape.nodes.iter().take(count).map(|node| node.core);
                let mut pinned: Vec<usize> = of.clone().flatten().collect();
                pinned.sort_unstable();
                pinned.dedup();
                let is_free = of.clone().any(|core| core.is_none());
                if is_free { machine::cores().len() } else { pinned.len() }
            }
        }
    }

    /// What names the cluster to `wiglaf`.
    fn options(&self) -> [OsString; 2] {
        match self {
            Self::Emulated(cluster) => ["--state".into(), cluster.state.path().into()],
            Self::Hosts(hosts, _) => ["--file".into(), hosts.file.clone().into()],
        }
    }

    fn summary(&self) -> String {
        match self {
            Self::Emulated(cluster) => cluster.record.shape.summary(),
            Self::Hosts(hosts, _) => format!("{}, network {}", hosts.names(), hosts.network.data),
        }
    }

    /// What brings such nodes up, where a comparison would not do so by itself.
    fn before(&self) -> Option<String> {
        match self {
            Self::Emulated(cluster) => cluster.command(),
            Self::Hosts(..) => None,
        }
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let name = &args.argv[0];
    program::find_program(name).ok_or_else(|| program::no_program(name))?;
    if args.argv.iter().any(|word| word == ":") {
        return Err(Error::new("`:` would start a second program; compare takes one at a time"));
    }
    let counts = counts(args);
    if args.plot.is_some() && counts.len() < 2 {
        return Err(Error::new(
            "--plot draws the speed-up against nodes: give several numbers, as in --nodes 1,2,4",
        ));
    }
    if args.weak && counts.len() < 2 {
        return Err(Error::new(
            "--weak compares numbers of nodes: give several, as in --nodes 1,2,4",
        ));
    }
    if args.weak && args.ranks.is_some() {
        return Err(Error::new(
            "-n is the same on any number of nodes, so --weak has nothing that grows; take --per-node instead",
        ));
    }
    if let Some(most) = counts.last().filter(|most| args.ranks.is_some_and(|ranks| ranks < **most))
    {
        let ranks = args.ranks.unwrap_or_default();
        return Err(Error::new(format!(
            "-n {ranks} leaves some of {most} nodes without a rank; give -n {most} or more"
        )));
    }
    let transports = transports(args)?;
    let nodes = Nodes::find(args, global)?;
    let (mut report, went) = measure(args, &transports, &nodes, None)?;
    report.typed = typed();
    report.before = nodes.before();
    drop(nodes);
    if !report.runs.is_empty() {
        publish(args, &report)?;
    }
    went?;
    interrupt::check()?;
    verdict(args, &report)
}

/// The numbers of nodes that were asked for, fewest first.
fn counts(args: &Args) -> Vec<usize> {
    let mut counts = args.nodes.clone();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// All runs, in that folder or in this one; and what ended them early.
fn measure(
    args: &Args,
    transports: &[(Transport, Option<String>)],
    nodes: &Nodes,
    folder: Option<&Path>,
) -> Result<(Report, Result<()>)> {
    let name = &args.argv[0];
    let found = program::find_program(name).ok_or_else(|| program::no_program(name))?;
    let mut counts = counts(args);
    if counts.is_empty() {
        counts = vec![match nodes {
            Nodes::Emulated(_) => args.ranks.unwrap_or(2).min(2),
            Nodes::Hosts(hosts, _) => args.ranks.unwrap_or(usize::MAX).min(hosts.nodes.len()),
        }];
    }
    let place = |count: usize| Place {
        nodes: count,
        ranks: args.ranks.unwrap_or(count * args.per_node.unwrap_or(1)),
        cores: Some(nodes.cores(count)),
    };
    let mut report = Report {
        schema: "wiglaf-compare 1".to_owned(),
        command: args.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        typed: Vec::new(),
        before: None,
        date: Facts::gather(Default::default()).date,
        cluster: nodes.summary(),
        is_emulated: matches!(nodes, Nodes::Emulated(_)),
        is_weak: args.weak,
        rounds: args.repeats,
        ways: transports
            .iter()
            .map(|(one, _)| Way { word: one.word().to_owned(), label: label(*one).to_owned() })
            .collect(),
        places: counts.into_iter().map(place).collect(),
        runs: Vec::new(),
        failures: Vec::new(),
    };
    for (way, (_, missing)) in transports.iter().enumerate() {
        if let Some(reason) = missing {
            eprintln!("wiglaf: without {}: {reason}", report.ways[way].label);
        }
        report.failures.extend(missing.iter().map(|reason| Failure {
            way,
            place: None,
            round: None,
            reason: reason.clone(),
        }));
    }
    let runner = Runner {
        args,
        exe: this_exe()?,
        options: nodes.options(),
        names: nodes.names(),
        is_linked: mpi::is_linked(&found),
        folder: folder.map(Path::to_owned),
    };
    let went = runner.all(&mut report);
    Ok((report, went))
}

/// The transports, and why one is not to be had. One that nobody has asked for is left out then.
fn transports(args: &Args) -> Result<Vec<(Transport, Option<String>)>> {
    let Mpi::With(choice) = parse_mpi(&args.mpi)? else {
        return Err(Error::new("a program without MPI has nothing to compare"));
    };
    let missing =
        |one: Transport| mpi::installation(&choice, carrier(one)).err().map(|e| e.to_string());
    let asked = !args.transports.is_empty();
    let mut found: Vec<(Transport, Option<String>)> = Vec::new();
    for one in if asked { &args.transports[..] } else { &USUAL[..] } {
        if found.iter().any(|(other, _)| other == one) {
            continue;
        }
        match missing(*one) {
            Some(reason) if !asked => eprintln!("wiglaf: without {}: {reason}", label(*one)),
            missing => found.push((*one, missing)),
        }
    }
    match found.iter().find(|(_, missing)| missing.is_none()) {
        Some(_) => Ok(found),
        None => Err(Error::new(found.into_iter().find_map(|(_, missing)| missing).unwrap_or_else(
            || format!("no transport is to be had under `--mpi {}`; see `wiglaf doctor`", args.mpi),
        ))),
    }
}

/// The tables and what they cannot tell.
fn text(report: &Report) -> String {
    let said = notes(report);
    let said: String = said.iter().map(|note| format!("note: {note}\n")).collect();
    format!("{}{said}", tables(report))
}

/// Prints the tables and what they cannot tell; writes the files.
fn publish(args: &Args, report: &Report) -> Result<()> {
    output::print(&format!("\n{}", text(report)))?;
    if let Some(file) = &args.json {
        report::write(report, file).map_err(plain)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    if let Some(file) = &args.plot {
        draw(report, file)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    Ok(())
}

fn draw(report: &Report, file: &std::path::Path) -> Result<()> {
    let curve = |(way, of): (usize, &Way)| {
        let points = report.places.iter().enumerate();
        let points =
            points.filter_map(|(at, place)| Some((place.nodes, report.speed_up(way, at)?.0)));
        let fit = report.fit(way).map(|fit| format!(", P = {:.2}", fit.serial_part));
        SpeedUpCurve {
            label: format!("{}{}", of.label, fit.unwrap_or_default()),
            transport: transport_of(&of.word),
            is_published: false,
            points: points.collect(),
        }
    };
    let curves: Vec<SpeedUpCurve> = report.ways.iter().enumerate().map(curve).collect();
    let curves: Vec<SpeedUpCurve> = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
    let most = report.places.last();
    let words = SpeedUpWords {
        title: &output::visible(&report.command.join(" ")).chars().take(60).collect::<String>(),
        subtitle: &format!(
            "{}, medians of {} interleaved rounds, {}",
            if report.is_weak { "weak scaling: scaled speed-up" } else { "wall time" },
            report.rounds,
            report.date
        ),
        // Ranks of one node may share a core as well.
        cores: most.map_or(0, |place| {
            place.cores.unwrap_or(0).max(if report.is_emulated { 0 } else { place.nodes })
        }),
    };
    report::draw_speed_up(&words, &curves, file).map_err(plain)
}

/// The transport of a report's word.
pub(crate) fn transport_of(word: &str) -> Transport {
    Transport::of(word).unwrap_or(Transport::Wiglaf)
}

/// Success where all ran and no number differs.
fn verdict(args: &Args, report: &Report) -> Result<ExitCode> {
    output::print(&checked(args, report)?)?;
    complete(report)?;
    Ok(ExitCode::SUCCESS)
}

/// A line that says what all runs found, if that was to be checked; an error where they differ.
fn checked(args: &Args, report: &Report) -> Result<String> {
    let Some(check) = &args.check else { return Ok(String::new()) };
    let checked: Vec<_> = report.runs.iter().filter_map(|run| Some((run, run.value?))).collect();
    let values: Vec<f64> = checked.iter().map(|(_, value)| *value).collect();
    if let Some(difference) = check.difference(&values) {
        let [one, other] = difference.runs.map(|at| checked[at]);
        return Err(Error::new(format!(
            "the number behind `{}` differs by more than {}: {} in {}, {} in {}",
            check.pattern(),
            check.tolerance(),
            one.1,
            report.name(one.0),
            other.1,
            report.name(other.0)
        )));
    }
    Ok(values.first().map_or(String::new(), |value| {
        format!(
            "check: `{}` gives {value} in all {} runs, within {}\n",
            check.pattern(),
            values.len(),
            check.tolerance()
        )
    }))
}

/// An error unless every run came to its end.
fn complete(report: &Report) -> Result<()> {
    let (worked, failed) = (report.runs.len(), report.failures.len());
    match failed {
        0 => Ok(()),
        _ if worked == 0 => Err(Error::new("no run came to its end, as said above")),
        _ => Err(Error::new(format!(
            "not all is in the tables: {worked} runs came to their end, and {failed} did not, as said above"
        ))),
    }
}
