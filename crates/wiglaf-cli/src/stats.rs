//! `wiglaf stats`.

mod show;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiglaf_base::paths::{EXE, NODE_VAR};
use wiglaf_base::{End, Error, HostList, Result};
use wiglaf_cluster::state as clusters;
use wiglaf_counters::Snapshot;
use wiglaf_node::fanout::{self, Keep, NodeOutput};
use wiglaf_node::{Node, NodeCommand};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;
use crate::which::Meant;

const HELP: &str = "\
Examples:
  wiglaf stats                   what the running jobs have sent and received
  wiglaf stats --watch           the same every second, per second
  wiglaf stats -w node2 --json   of one node, for programs

Every endpoint writes its counters to a file of its user on its node, ten times
a second while the program calls MPI. A program that computes shows what it had
last; `age` says for how long. With a cluster up, all of its nodes are asked; on
a node, or with no cluster up, this machine is. You see your own programs, and
root sees everybody's. WIGLAF_STATS=off keeps a program from being seen.

Messages of ranks on one node go over the near lane: `via near`. Credit is what
may still be sent unasked, in bytes. The other columns, and every reason for
which something is dropped, are explained in docs/stats.md.";

/// Show what running jobs send, receive, repeat and drop
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which nodes [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Only of the job whose mark begins so
    #[arg(short = 'J', long, value_name = "JOB")]
    job: Option<String>,

    /// Show again after so many seconds, with rates
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1", value_parser = interval)]
    watch: Option<Duration>,

    /// Stop after so many times
    #[arg(long, value_name = "TIMES", requires = "watch")]
    count: Option<u64>,

    /// Print JSON; with --watch, a line each time
    #[arg(long)]
    json: bool,

    /// Ask this machine only
    #[arg(long, hide = true, conflicts_with_all = ["nodes", "watch"])]
    here: bool,
}

/// A snapshot and where it was taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Seen {
    node: String,
    /// Since it was written, in milliseconds.
    age_ms: u64,
    #[serde(flatten)]
    pub(crate) snapshot: Snapshot,
}

fn interval(text: &str) -> Result<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(Error::new("give 0.1 to 3600 seconds")),
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let nodes = match args.here {
        true => Vec::new(),
        false => nodes(&global.meant()?, args.nodes.as_ref())?,
    };
    let look = || {
        let mut seen = if nodes.is_empty() { here() } else { ask_all(&nodes)? };
        seen.retain(|s| {
            args.job.as_ref().is_none_or(|job| s.snapshot.identity.job.starts_with(job))
        });
        Ok::<_, Error>(seen)
    };
    let Some(every) = args.watch else {
        let seen = look()?;
        match args.json {
            true => output::print_json(&seen)?,
            false => output::print(&show::tables(&seen, &show::Style::plain(coloured())))?,
        }
        return Ok(ExitCode::SUCCESS);
    };
    let mut before = BTreeMap::new();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        left -= 1;
        let seen = look()?;
        let is_read = if args.json {
            let line = serde_json::to_string(&seen)
                .map_err(|error| Error::new(format!("cannot write JSON: {error}")))?;
            output::print_while_read((line + "\n").as_bytes())?
        } else {
            let text = show::tables(&seen, &show::Style { before: &before, ..watched() });
            output::print_while_read(text.as_bytes())?
        };
        if !is_read {
            break;
        }
        before = seen.into_iter().map(|s| (s.snapshot.identity.epoch, s.snapshot)).collect();
        if left > 0 {
            std::thread::sleep(every);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn coloured() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

fn watched() -> show::Style<'static> {
    let redraws = std::io::stdout().is_terminal();
    show::Style { redraws, rates: true, ..show::Style::plain(coloured()) }
}

/// The nodes to ask; none: this machine.
fn nodes(meant: &Meant, names: Option<&HostList>) -> Result<Vec<Node>> {
    let Meant::Emulated(state) = meant else { return meant.nodes(names) };
    let on_node = std::env::var_os(NODE_VAR).is_some();
    let record = if on_node { None } else { state.record()? };
    match (record, names) {
        (Some(record), names) => {
            let shapes = clusters::select(&record, &names.cloned().unwrap_or_default())?;
            Ok(shapes.iter().map(|node| state.node(&node.name)).collect())
        }
        (None, Some(_)) if on_node => {
            Err(Error::new("a node sees itself only; leave --nodes out, or run it outside"))
        }
        (None, Some(_)) => Err(state.not_up()),
        (None, None) => Ok(Vec::new()),
    }
}

fn here() -> Vec<Seen> {
    let node = std::env::var(NODE_VAR)
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX);
    let with_node = |snapshot: Snapshot| Seen {
        node: node.clone(),
        age_ms: now_ns.saturating_sub(snapshot.updated_at_ns) / 1_000_000,
        snapshot,
    };
    wiglaf_counters::here().into_iter().map(with_node).collect()
}

/// What nodes tell, and why others do not.
fn ask(nodes: &[Node]) -> (Vec<Seen>, Vec<Error>) {
    let command = NodeCommand::new([EXE, "stats", "--here", "--json"]).cwd("/");
    let (mut seen, mut silent) = (Vec::new(), Vec::new());
    for output in fanout::run(nodes, &command, Keep::All, &|_, _, _| {}) {
        match told(output) {
            Ok(told) => seen.extend(told),
            Err(error) => silent.push(error),
        }
    }
    seen.sort_by(|a, b| {
        let key = |s: &Seen| (s.snapshot.identity.job.clone(), s.snapshot.identity.rank);
        key(a).cmp(&key(b))
    });
    (seen, silent)
}

fn told(output: NodeOutput) -> Result<Vec<Seen>> {
    if output.end? != End::Status(0) {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("{} does not tell: {}", output.node, why.trim())));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::new(format!("{} tells nonsense: {error}", output.node)))
}

/// What those tell that do; says why others do not, and fails if nobody does.
pub(crate) fn ask_all(nodes: &[Node]) -> Result<Vec<Seen>> {
    let (seen, silent) = ask(nodes);
    let last = if silent.len() == nodes.len() { silent.last().cloned() } else { None };
    for error in &silent[..silent.len() - usize::from(last.is_some())] {
        eprintln!("wiglaf: {error}");
    }
    last.map_or(Ok(seen), Err)
}

/// Job, epoch, and rank and node of every endpoint that nodes tell of.
pub(crate) fn names(nodes: &[Node]) -> Vec<(String, u64, String)> {
    let (seen, _) = ask(nodes);
    let of = |s: Seen| {
        let name = match s.snapshot.identity.rank {
            Some(rank) => format!("rank {rank} on {}", s.node),
            None => format!("pid {} on {}", s.snapshot.identity.pid, s.node),
        };
        (s.snapshot.identity.job, s.snapshot.identity.epoch, name)
    };
    seen.into_iter().map(of).collect()
}
