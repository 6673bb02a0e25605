//! `wiglaf top`.

mod screen;
pub(crate) mod view;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use wiglaf_base::network::Cidr;
use wiglaf_base::paths::EXE;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::Cluster;
use wiglaf_node::End;
use wiglaf_node::fanout::{self, Keep, NodeOutput};
use wiglaf_node::{Node, NodeCommand};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;
use view::{Here, Row};

const HELP: &str = "\
Examples:
  wiglaf top                  until you press q
  wiglaf top --once           one look, as text
  wiglaf top --json           one look, for programs

Load, memory and temperature are the machine's; emulated nodes share one. The
temperature is that of the hottest sensor that the kernel shows; `wiglaf
sensors` asks BMCs. Jobs and what they sent again are those that you may see,
as in `wiglaf stats`. All hosts need this version of Wiglaf.";

/// Watch the nodes: load, memory, temperature, cable, jobs, what is sent again
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which nodes [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Look again after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,

    /// Print one look as text, and end
    #[arg(long)]
    once: bool,

    /// Print one look as JSON, and end
    #[arg(long)]
    json: bool,

    /// Say what this machine is like
    #[arg(long, hide = true)]
    here: bool,

    /// The data network, whose card is looked at
    #[arg(long, hide = true, value_name = "CIDR")]
    network: Option<Cidr>,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if args.here {
        output::print_json(&view::here(args.network))?;
        return Ok(ExitCode::SUCCESS);
    }
    let cluster = global.meant()?.running()?;
    let members = cluster.members(&args.nodes.clone().unwrap_or_default())?;
    let nodes: Vec<Node> = members.into_iter().map(|member| member.node).collect();
    let data = data(&cluster);
    if args.json || args.once {
        let rows = look(&nodes, data);
        if args.json {
            output::print_json(&rows)?;
        } else {
            output::print(&output::table(&view::table(&rows, None)))?;
            let errors = rows.iter().filter_map(|row| row.error.as_ref());
            errors.for_each(|error| eprintln!("wiglaf: {error}"));
        }
        let is_up = rows.iter().all(|row| row.error.is_none());
        return Ok(if is_up { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    screen::run(Duration::from_secs(args.every), move || look(&nodes, data))?;
    Ok(ExitCode::SUCCESS)
}

/// The data network of real hosts.
pub(crate) fn data(cluster: &Cluster) -> Option<Cidr> {
    cluster.hosts().map(|hosts| hosts.network.data)
}

/// One look at all nodes.
pub(crate) fn look(nodes: &[Node], data: Option<Cidr>) -> Vec<Row> {
    let mut words = [EXE, "top", "--here"].map(str::to_owned).to_vec();
    words.extend(data.into_iter().flat_map(|data| ["--network".to_owned(), data.to_string()]));
    let command = NodeCommand::new(words).cwd("/");
    let outputs = fanout::run(nodes, &command, Keep::All, &|_, _, _| {});
    let row = |output: NodeOutput| {
        let node = output.node.clone();
        match told(output) {
            Ok(here) => Row { node, here: Some(here), error: None },
            Err(error) => Row { node, here: None, error: Some(error.to_string()) },
        }
    };
    let mut rows: Vec<Row> = outputs.into_iter().map(row).collect();
    let place: BTreeMap<String, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.name().to_owned(), place)).collect();
    rows.sort_by_key(|row| place.get(&row.node).copied());
    rows
}

fn told(output: NodeOutput) -> Result<Here> {
    if output.end? != End::Status(0) {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(format!("{} does not tell: {}", output.node, why.trim())));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::new(format!("{} tells nonsense: {error}", output.node)))
}

/// Two looks, of which rates are made.
#[derive(Debug, Clone)]
struct Look {
    at: Instant,
    rows: Vec<Row>,
}
