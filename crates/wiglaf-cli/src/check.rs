//! `wiglaf check`: what would hinder or slow a job on these hosts, found before it starts.

use std::fs::File;
use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wiglaf_base::paths::EXE;
use wiglaf_base::{Error, HostList, Result, program};
use wiglaf_check::Known;
use wiglaf_check::facts::{Ask, Facts, Mpi, Peer};
use wiglaf_check::probe::{Answer, Lines, Measured, PairResult, Plan, Request, Side, tournament};
use wiglaf_check::verdict::{Checked, Expected, Host, Severity, text};
use wiglaf_cluster::cluster::{address_of, ask_all};
use wiglaf_cluster::{Cluster, Member};
use wiglaf_mpi::Origin;
use wiglaf_node::client::{Running, working_folder};
use wiglaf_node::{Node, NodeCommand, Streams};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;

/// Where no range is said: the ports from which the kernel takes one for a socket that asks for any.
const PORTS: (u16, u16) = (32_768, 60_999);
/// So many hosts are measured thoroughly; of more, each pair for a second.
const THOROUGH_MAX: usize = 8;
/// No round of measurements begins later than this.
const BUDGET: Duration = Duration::from_secs(50);
/// Of many hosts.
const BUDGET_OF_MANY: Duration = Duration::from_secs(100);

const HELP: &str = "\
Examples:
  wiglaf check                     all hosts, every pair of them: a minute
  wiglaf check -w 'pc[1-2]'        these two
  wiglaf check --quick             only whether jobs could run
  wiglaf check -- ./prog           whether that program is the same everywhere
  wiglaf check --json              for programs

It changes nothing and needs no privilege. Each difference between hosts that
matters is one sentence, with what to type. The last result is kept, and the
next check compares with it; `wiglaf status` and `run` tell what it found.

The exit status is 1 when something would stop a job, 0 otherwise.";

/// Compare the hosts, measure each pair, and say what is wrong
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which nodes [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Measure less: whether jobs can run, and little of how fast
    #[arg(long)]
    quick: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// A program that should be the same on all hosts
    #[arg(last = true, value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let cluster = global.meant()?.running()?;
    let members = cluster.members(&args.nodes.clone().unwrap_or_default())?;
    let program = args.program.as_ref().map(|name| {
        program::find_program(name).ok_or_else(|| program::no_program(name.as_os_str()))
    });
    let program = program.transpose()?.map(|found| std::path::absolute(&found).unwrap_or(found));
    let progress = Progress::new(args.json);
    progress.say(&format!("asking {} hosts about themselves", members.len()));
    let addresses = addresses(&cluster, &members);
    let hosts = ask_facts(&members, &addresses, program)?;
    let ports = ports(&cluster);
    let measured = measure(args, &members, &hosts, ports, &progress);
    let expected = expected(&cluster);
    let before = last(&cluster);
    let Measured { pairs, together } = measured;
    progress.clear();
    let checked = Checked::new(now_s(), expected, hosts, pairs, together, before.as_ref());
    // A part is not what the next check of all is to be compared with.
    if args.nodes.is_none() {
        keep(&cluster, &checked)?;
    }
    match args.json {
        true => output::print_json(&checked)?,
        false => output::print(&text(&checked))?,
    }
    Ok(match checked.worst() {
        Some(Severity::Fatal) => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// First and last of the ports that jobs use.
pub(crate) fn ports(cluster: &Cluster) -> (u16, u16) {
    let ports = cluster.hosts().and_then(|hosts| hosts.network.ports);
    ports.map_or(PORTS, |ports| (ports.first, ports.last))
}

/// The hosts' addresses in the data network, or why they are not known.
pub(crate) fn addresses(cluster: &Cluster, members: &[Member]) -> Vec<Result<Ipv4Addr>> {
    ask_all(members, |member| {
        let hello = member.node.hello()?;
        let (Some(hosts), Some(host)) = (cluster.hosts(), hello.host) else {
            return member.address.ok_or_else(|| Error::new("it has no address"));
        };
        let spec = hosts.nodes.iter().find(|spec| spec.name == member.name());
        address_of(hosts, spec.ok_or_else(|| Error::new("it is in no cluster"))?, &host)
    })
}

/// What each host says of itself.
fn ask_facts(
    members: &[Member],
    addresses: &[Result<Ipv4Addr>],
    program: Option<PathBuf>,
) -> Result<Vec<Host>> {
    let peers = members.iter().zip(addresses);
    let peers = peers.map(|(member, address)| Peer {
        name: member.name().to_owned(),
        address: address.as_ref().ok().copied(),
    });
    let ask = Ask {
        peers: peers.collect(),
        folder: working_folder().ok(),
        files: program.into_iter().collect(),
        ..Ask::default()
    };
    let facts = ask_all(members, |member| {
        let ask = Ask { scratch: Some(member.scratch.clone()), ..ask.clone() };
        let ask = serde_json::to_vec(&ask).map_err(|error| Error::new(error.to_string()))?;
        facts_of(&member.node, &ask)
    });
    let hosts = members.iter().zip(addresses).zip(facts).map(|((member, address), facts)| Host {
        name: member.name().to_owned(),
        address: address.as_ref().ok().copied(),
        // One that is reached and has no address there is not measured: that is what is wrong with it.
        facts: match (facts, address) {
            (Ok(facts), Ok(_)) => Known::Is(facts),
            (Ok(_), Err(error)) => Known::unknown(error.to_string()),
            (Err(error), _) => Known::unknown(error.to_string()),
        },
    });
    Ok(hosts.collect())
}

fn facts_of(node: &Node, ask: &[u8]) -> Result<Facts> {
    let said = node.output(&NodeCommand::new([EXE, "host-facts"]), ask)?;
    serde_json::from_slice(&said).map_err(|error| {
        Error::new(format!("{} does not say what it is like: {error}", node.name()))
    })
}

/// A host's probe, which ends with this.
struct Probe {
    lines: Lines<File>,
    _running: Running,
}

impl Side for Probe {
    fn post(&mut self, request: &Request) -> std::result::Result<(), String> {
        self.lines.post(request)
    }

    fn take(&mut self, limit: Duration) -> std::result::Result<Answer, String> {
        self.lines.take(limit)
    }
}

fn measure(
    args: &Args,
    members: &[Member],
    hosts: &[Host],
    ports: (u16, u16),
    progress: &Progress,
) -> Measured {
    let ends: Vec<(String, Ipv4Addr)> = hosts
        .iter()
        .filter(|host| host.facts.get().is_some())
        .filter_map(|host| Some((host.name.clone(), host.address?)))
        .collect();
    let nodes: Vec<&Node> = ends
        .iter()
        .filter_map(|(name, _)| members.iter().find(|member| member.name() == name))
        .map(|member| &member.node)
        .collect();
    let is_thorough = !args.quick && ends.len() <= THOROUGH_MAX;
    let (plan, budget) = match is_thorough {
        true => (Plan::full(ports), BUDGET),
        false => (Plan::quick(ports), BUDGET_OF_MANY),
    };
    measure_ends(&ends, &nodes, &plan, budget, progress)
}

/// What is wrong with these hosts, judging from these pairs of them.
pub(crate) fn judge(
    cluster: &Cluster,
    members: &[Member],
    pairs: Vec<PairResult>,
) -> Option<Checked> {
    let hosts = ask_facts(members, &addresses(cluster, members), None).ok()?;
    Some(Checked::new(now_s(), expected(cluster), hosts, pairs, Vec::new(), None))
}

fn expected(cluster: &Cluster) -> Expected {
    let data = cluster.hosts().map(|hosts| hosts.network.data.parts());
    Expected { data, ports: ports(cluster) }
}

/// Measures every pair of these hosts, whose addresses are known.
pub(crate) fn measure_pairs(
    ends: &[(&Member, Ipv4Addr)],
    plan: &Plan,
    is_for_programs: bool,
) -> Vec<PairResult> {
    let nodes: Vec<&Node> = ends.iter().map(|(member, _)| &member.node).collect();
    let ends: Vec<_> = ends.iter().map(|(member, at)| (member.name().to_owned(), *at)).collect();
    let progress = Progress::new(is_for_programs);
    let measured = measure_ends(&ends, &nodes, plan, BUDGET, &progress);
    progress.clear();
    measured.pairs
}

fn measure_ends(
    ends: &[(String, Ipv4Addr)],
    nodes: &[&Node],
    plan: &Plan,
    budget: Duration,
    progress: &Progress,
) -> Measured {
    let connect = |host: usize| -> std::result::Result<Box<dyn Side + Send>, String> {
        let start = || {
            let (streams, to, from) = Streams::piped()?;
            let command = NodeCommand::new([EXE, "host-probe"]).cwd("/");
            let running = nodes[host].spawn(&command, streams)?;
            Ok(Probe { lines: Lines::new(from, to), _running: running })
        };
        let started: Result<Probe> = start();
        started.map(|probe| Box::new(probe) as _).map_err(|error| error.to_string())
    };
    tournament(ends, &connect, plan, budget, &mut |round, of| {
        progress.say(&format!("measuring pairs of hosts: round {round} of {of}"));
    })
}

/// The hidden command `wiglaf host-facts`.
pub(crate) fn host_facts() -> Result<ExitCode> {
    let ask: Ask = serde_json::from_reader(std::io::stdin().lock())
        .map_err(|error| Error::new(format!("the question is damaged: {error}")))?;
    let mpis = wiglaf_mpi::discover::all().into_iter().map(|mpi| Mpi {
        family: mpi.family.name().to_owned(),
        version: mpi.version.clone(),
        prefix: mpi.prefix.display().to_string(),
        // What a system packages need not be in the index.
        install: mpi.family.wheel_command((mpi.origin == Origin::Prefix).then_some(&mpi.version)),
    });
    let wiglaf = env!("CARGO_PKG_VERSION").to_owned();
    let ask = Ask { mpis: mpis.collect(), wiglaf, ..ask };
    output::print_json(&wiglaf_check::facts::collect(&ask))?;
    Ok(ExitCode::SUCCESS)
}

/// The hidden command `wiglaf host-probe`.
pub(crate) fn host_probe() -> Result<ExitCode> {
    wiglaf_check::probe::serve(std::io::stdin().lock(), std::io::stdout().lock())
        .map_err(|error| Error::new(format!("cannot answer: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// A line that is written over, where somebody looks at it.
struct Progress {
    is_seen: bool,
}

impl Progress {
    fn new(is_for_programs: bool) -> Self {
        Self { is_seen: !is_for_programs && std::io::stderr().is_terminal() }
    }

    fn say(&self, what: &str) {
        if self.is_seen {
            eprint!("\r\x1b[K{what} ...");
        }
    }

    fn clear(&self) {
        if self.is_seen {
            eprint!("\r\x1b[K");
        }
    }
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Where the last result of a cluster is kept.
fn kept_at(cluster: &Cluster) -> Option<PathBuf> {
    let state = wiglaf_base::paths::user_state();
    let kind = if cluster.hosts().is_some() { "hosts" } else { "emulated" };
    state.map(|state| state.join(format!("wiglaf/check-{kind}-{}.json", cluster.name())))
}

/// The last result, if there is one that this version can read.
pub(crate) fn last(cluster: &Cluster) -> Option<Checked> {
    let text = std::fs::read(kept_at(cluster)?).ok()?;
    serde_json::from_slice(&text).ok()
}

fn keep(cluster: &Cluster, checked: &Checked) -> Result<()> {
    let Some(path) = kept_at(cluster) else { return Ok(()) };
    let written = || -> std::io::Result<()> {
        let folder = path.parent().ok_or(std::io::ErrorKind::NotFound)?;
        std::fs::create_dir_all(folder)?;
        // Whole or not at all.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&new, serde_json::to_vec(checked)?)?;
        std::fs::rename(&new, &path)
    };
    written().map_err(|error| {
        Error::new(format!("cannot keep the result in {}: {error}", path.display()))
    })
}

/// What the last check found that would stop a job on these hosts.
pub(crate) fn found_fatal(cluster: &Cluster, names: &[String]) -> Vec<String> {
    let Some(checked) = last(cluster) else { return Vec::new() };
    checked.fatal(names).map(|finding| finding.sentence.clone()).collect()
}

/// When the last check was, and what it found, in a line.
pub(crate) fn summary(cluster: &Cluster) -> Option<String> {
    let checked = last(cluster)?;
    let count = |severity| checked.findings.iter().filter(|f| f.severity == severity).count();
    let ago = Duration::from_secs(now_s().saturating_sub(checked.at_s).max(0).unsigned_abs());
    let (minutes, hours, days) = (ago.as_secs() / 60, ago.as_secs() / 3600, ago.as_secs() / 86_400);
    let when = match (minutes, hours, days) {
        (0, ..) => "just now".to_owned(),
        (minutes, 0, _) => format!("{minutes} min ago"),
        (_, hours, 0) => format!("{hours} h ago"),
        (_, _, days) => format!("{days} days ago"),
    };
    let (fatal, slows) = (count(Severity::Fatal), count(Severity::Slows));
    Some(match (fatal, slows) {
        (0, 0) => format!("last check: {when}, all well"),
        _ => format!(
            "last check: {when}, {fatal} things would stop a job, {slows} slow it; see `wiglaf check`"
        ),
    })
}
