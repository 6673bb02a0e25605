//! `wiglaf discover`: which PCs could join.

use std::process::ExitCode;

use wiglaf_base::Result;
use wiglaf_base::network::Cidr;
use wiglaf_cluster::hosts::{self, Hosts};
use wiglaf_join::discover;

use crate::options::Global;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  wiglaf discover                            the data network's PCs
  wiglaf discover --network 192.168.77.0/24
  wiglaf discover --json

It reads what this host knows: the kernel's neighbours, /etc/hosts, known_hosts.
It sends one connection to port 22 of each neighbour and, where Avahi runs, asks
it who announces ssh, and for names of those that have none. A PC that is not
listed may join all the same: `wiglaf join NAME`.";

/// List PCs of the data network that have ssh
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The network [default: that of the cluster file, or the wired one]
    #[arg(long, value_name = "CIDR")]
    network: Option<Cidr>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let file = hosts::find(global.file.as_deref())?;
    let known = file.filter(|(_, text)| hosts::is_of_hosts(text));
    let known = known.map(|(path, text)| Hosts::parse(&text, &path)).transpose()?;
    let found = discover::discover(args.network, known.as_ref())?;
    if args.json {
        output::print_json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let heading = ["name", "address", "ssh", "cluster", "known from"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for host in &found.hosts {
        let ssh = match host.ssh {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not asked",
        };
        rows.push(vec![
            host.name.as_deref().map_or_else(|| "-".to_owned(), output::visible),
            host.address.to_string(),
            ssh.to_owned(),
            host.node.clone().unwrap_or_else(|| "-".to_owned()),
            host.by.join(", "),
        ]);
    }
    match found.hosts.is_empty() {
        true => output::print(&format!(
            "this host knows no other in {}; `ping` one, or name it: `wiglaf join NAME`\n",
            found.network
        ))?,
        false => output::print(&format!("network {}\n{}", found.network, output::table(&rows)))?,
    }
    Ok(ExitCode::SUCCESS)
}
