//! `wiglaf image update` and `wiglaf image rollback`.

use std::path::PathBuf;

use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_join::update::{self, Options, Outcome};

use crate::join::{all_but_last, is_wanted};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  wiglaf image update -w 'pc[2-4]' --dry-run   what differs from this host
  wiglaf image update --from pc2 -w 'pc[3-4]'  as pc2 is
  wiglaf image update -w pc2 --path /usr/local/etc --no-packages

Host names, addresses, keys, disks, users and passwords stay each host's own; a
file that --path names itself goes all the same. `wiglaf image rollback -w pc2`
takes the last update back. See docs/images.md.";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  wiglaf image rollback -w pc2 --dry-run   what would be as before
  wiglaf image rollback -w 'pc[2-4]'       once more: the update before

What somebody else has changed since stays as it is, and is named.";

/// Give other hosts the packages and files of one that was configured
///
/// Packages get the versions of the first host, by apt; files below /etc and
/// each --path its content, mode and owner. Copies of all that was there before
/// stay for a rollback. No service is started anew.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host that was configured [default: this one]
    #[arg(long, value_name = "HOST")]
    from: Option<String>,

    /// The hosts that are to be like it
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: HostList,

    /// A further folder or file, besides /etc
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Leave packages as they are
    #[arg(long)]
    no_packages: bool,

    /// Remove files and packages that the first host does not have
    #[arg(long)]
    delete: bool,

    #[command(flatten)]
    how: How,
}

/// Take the last update of hosts back
#[derive(Debug, clap::Args)]
#[command(after_help = ROLLBACK_EXAMPLES)]
pub(crate) struct RollbackArgs {
    /// The hosts
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: HostList,

    #[command(flatten)]
    how: How,
}

/// What both are told.
#[derive(Debug, clap::Args)]
struct How {
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Print the plan, or what was done, as JSON
    #[arg(long)]
    json: bool,
}

impl How {
    /// Shows a plan, host by host: as JSON, if nothing else is to be printed.
    fn show<P: Serialize>(
        &self,
        plans: &[P],
        of: impl Fn(&P) -> (&str, Vec<String>),
    ) -> Result<()> {
        match (self.json, self.dry_run) {
            (true, true) => output::print_json(&plans),
            (true, false) => Ok(()),
            (false, _) => plans.iter().map(of).try_for_each(|(name, lines)| show(name, &lines)),
        }
    }
}

fn say(line: &str) {
    eprintln!("wiglaf: {line}");
}

/// Names that come from files of others are shown without control characters.
fn show(name: &str, lines: &[String]) -> Result<()> {
    lines.iter().try_for_each(|line| {
        output::print(&output::visible(&format!("{name}: {line}")))?;
        output::print("\n")
    })
}

pub(super) fn run(args: &Args, hosts: &Hosts) -> Result<()> {
    let options = Options {
        from: args.from.clone(),
        nodes: args.nodes.names().to_vec(),
        paths: args.paths.clone(),
        no_packages: args.no_packages,
        delete: args.delete,
    };
    say("hosts are being compared");
    let plan = update::plan(hosts, &options)?;
    args.how.show(&plan.hosts, |host| (&host.name, host.lines()))?;
    if args.how.dry_run {
        return Ok(());
    }
    let outcomes = match plan.is_done() || !is_wanted(args.how.yes)? {
        true => Vec::new(),
        false => plan.carry_out(&say)?,
    };
    told(&outcomes, args.how.json, "it is as it was")
}

pub(super) fn rollback(args: &RollbackArgs, hosts: &Hosts) -> Result<()> {
    let plans = update::rollback_plan(hosts, args.nodes.names())?;
    args.how.show(&plans, |host| (&host.name, host.lines()))?;
    if args.how.dry_run || !is_wanted(args.how.yes)? {
        return Ok(());
    }
    let outcomes: Vec<Outcome> = plans.iter().map(|host| host.carry_out(&say)).collect();
    told(&outcomes, args.how.json, "try again")
}

fn told(outcomes: &[Outcome], json: bool, end: &str) -> Result<()> {
    if json {
        output::print_json(&outcomes)?;
    }
    outcomes.iter().flat_map(|outcome| &outcome.notes).for_each(|note| say(note));
    let errors = outcomes.iter().filter_map(|outcome| outcome.error.as_ref());
    let errors: Vec<Error> = errors.map(|why| Error::new(format!("{why}; {end}"))).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(all_but_last(errors)),
    }
}
