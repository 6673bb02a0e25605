//! `wiglaf join` and `wiglaf leave`: hosts come into a cluster, and out of it.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::hosts::{self, Hosts};
use wiglaf_join::{join, leave};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;

const JOIN_EXAMPLES: &str = "\
Examples:
  wiglaf join --dry-run pc2 pc3     say what would be changed, and end
  wiglaf join pc2 pc3               install with sudo there, below /usr/local
  wiglaf join --copy 'pc[2-4]'      without root: into your home on each host
  wiglaf join --deb wiglaf.deb pc2  by apt: the package that this host has
  wiglaf join ann@pc5               where you have another name
  wiglaf join --yes pc2             ask nothing

It takes an ssh that asks for no password: `ssh-copy-id pc2`. A host on which
something fails is left as it was. `wiglaf leave` takes everything back.
See docs/real-hosts.md.";

const LEAVE_EXAMPLES: &str = "\
Examples:
  wiglaf leave pc3           take back what join has changed on pc3
  wiglaf leave --dead pc3    pc3 is gone for good: only out of the cluster file

What somebody else has changed since stays as it is, and is named.";

/// Make PCs hosts of the cluster
#[derive(Debug, clap::Args)]
#[command(after_help = JOIN_EXAMPLES)]
pub(crate) struct Args {
    /// The hosts as ssh knows them, each list perhaps with a user
    #[arg(required = true, value_name = "HOSTS")]
    hosts: Vec<String>,

    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Install into your home on each host, without root
    #[arg(long)]
    copy: bool,

    /// Have apt install this Debian package there, which this host has, too
    #[arg(long, value_name = "FILE", conflicts_with = "copy")]
    deb: Option<std::path::PathBuf>,

    /// Print the plan, or what was done, as JSON
    #[arg(long)]
    json: bool,
}

/// Take hosts out of the cluster, and take back what join has changed
#[derive(Debug, clap::Args)]
#[command(after_help = LEAVE_EXAMPLES)]
pub(crate) struct LeaveArgs {
    /// The hosts, as the cluster file calls them
    #[arg(required = true, value_name = "HOSTS", value_parser = parse_hosts)]
    hosts: Vec<HostList>,

    /// Only take them out of the cluster file: they are gone for good
    #[arg(long)]
    dead: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// The cluster file that is meant, with its text.
fn file(global: &Global) -> Result<(Hosts, String)> {
    let found = hosts::find(global.file.as_deref())?;
    let (path, text) = found.ok_or_else(|| {
        Error::new("there is no cluster file of real hosts yet; write one with `wiglaf init`")
    })?;
    Ok((Hosts::parse(&text, &path)?, text))
}

/// Tells all errors but the last, which the command's end tells.
pub(crate) fn all_but_last(mut errors: Vec<Error>) -> Error {
    let last = errors.pop().unwrap_or_else(|| Error::new("nothing was done"));
    errors.iter().for_each(|error| eprintln!("wiglaf: {error}"));
    last
}

pub(crate) fn success_unless(errors: Vec<Error>) -> Result<ExitCode> {
    match errors.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(all_but_last(errors)),
    }
}

/// Whether the user wants it.
pub(crate) fn is_wanted(yes: bool) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Error::new(
            "nobody is at a terminal to say yes; add --yes, or --dry-run to look",
        ));
    }
    eprint!("Do this? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(|error| Error::new(error.to_string()))?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (hosts, text) = file(global)?;
    let options =
        join::Options { hosts: args.hosts.clone(), copy: args.copy, deb: args.deb.clone() };
    let plan = join::plan(hosts, &text, &options).map_err(all_but_last)?;
    plan.notes.iter().for_each(|note| eprintln!("wiglaf: {note}"));
    for host in plan.hosts.iter().filter(|_| !args.json) {
        let lines = host.changes.iter().map(|change| format!("{}: {change}\n", host.name));
        output::print(&lines.collect::<String>())?;
    }
    plan.hosts.iter().flat_map(|host| &host.notes).for_each(|note| eprintln!("wiglaf: {note}"));
    if args.json && args.dry_run {
        output::print_json(&plan.hosts)?;
    }
    // Who has joined already keeps no other host from it, but is told at the end.
    let already: Vec<Error> = plan.already.iter().map(Error::new).collect();
    if args.dry_run || plan.hosts.is_empty() || !is_wanted(args.yes)? {
        return success_unless(already);
    }
    let outcomes = plan.carry_out(&|line| eprintln!("wiglaf: {line}"))?;
    if args.json {
        output::print_json(&outcomes)?;
    }
    let errors = outcomes.iter().filter_map(|outcome| {
        let why = outcome.error.as_ref()?;
        let undone = "it has not joined, and is as it was";
        Some(Error::new(format!("{why}; {undone}")))
    });
    let errors: Vec<Error> = already.into_iter().chain(errors).collect();
    let joined: HostList =
        outcomes.iter().filter(|o| o.error.is_none()).map(|o| o.name.as_str()).collect();
    if !joined.names().is_empty() && !args.json {
        output::print(&format!("{joined}: joined; see `wiglaf status`\n"))?;
    }
    success_unless(errors)
}

pub(crate) fn leave(args: &LeaveArgs, global: &Global) -> Result<ExitCode> {
    let (hosts, text) = file(global)?;
    let names: HostList = args.hosts.iter().flat_map(|list| list.names().to_vec()).collect();
    let plan = leave::plan(hosts, &text, &names, args.dead).map_err(all_but_last)?;
    plan.lines.iter().try_for_each(|line| output::print(&format!("{line}\n")))?;
    if !is_wanted(args.yes)? {
        return Ok(ExitCode::SUCCESS);
    }
    let all = plan.carry_out(&|line| eprintln!("wiglaf: {line}"))?;
    let mut errors = Vec::new();
    let mut left = Vec::new();
    for one in all {
        match one.outcome.error {
            Some(why) => errors.push(Error::new(format!("{why}; it stays in the cluster"))),
            None => left.push(one.outcome.name),
        }
        errors.extend(one.kept.into_iter().map(Error::new));
    }
    let left: HostList = left.into_iter().collect();
    if !left.names().is_empty() {
        output::print(&format!("{left}: left the cluster\n"))?;
    }
    success_unless(errors)
}
