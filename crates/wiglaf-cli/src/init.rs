//! `wiglaf init`: the first cluster file of real hosts.

use std::path::PathBuf;
use std::process::ExitCode;

use wiglaf_base::network::Cidr;
use wiglaf_base::{Error, Result};
use wiglaf_cluster::hosts::Ports;
use wiglaf_join::init;

use crate::options::Global;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  wiglaf init                             where there is one wired network
  wiglaf init --network 192.168.77.0/24   where there are several
  wiglaf init --network 192.168.77.0/24 --admin 10.9.0.0/24 --ports 47000-47999
  wiglaf init --name lab --output lab.toml

Then `wiglaf join pc2 pc3` adds hosts. It takes an ssh to them that asks for no
password: `ssh-copy-id pc2`. See docs/real-hosts.md.";

/// Write the cluster file of real hosts, with this one in it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The network of MPI's messages [default: this host's wired one]
    #[arg(long, value_name = "CIDR")]
    network: Option<Cidr>,

    /// The network of ssh and launchers, if it is another
    #[arg(long, value_name = "CIDR")]
    admin: Option<Cidr>,

    /// The UDP and TCP ports that firewalls let through
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    ports: Option<Ports>,

    /// Where to write [default: ~/.config/wiglaf/cluster.toml]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn parse_ports(text: &str) -> Result<Ports> {
    Ports::try_from(text.to_owned())
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if global.file.is_some() || global.state.is_some() {
        return Err(Error::new("init makes a new cluster file; name it with --output FILE"));
    }
    let options = init::Options {
        network: args.network,
        admin: args.admin,
        ports: args.ports,
        name: global.name.clone(),
        output: args.output.clone(),
    };
    let written = init::init(&options)?;
    let own = wiglaf_cluster::hosts::own_file();
    let named = match own.as_ref() == Some(&written.file) {
        true => String::new(),
        false => format!(" --file {}", written.file.display()),
    };
    output::print(&format!(
        "{} is the first host of a cluster: data network {}, {} on {} ({})\nNext: `wiglaf discover{named}`, \
         `wiglaf join{named} HOSTS`\n",
        written.node,
        written.data,
        written.address,
        written.interface,
        written.file.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
