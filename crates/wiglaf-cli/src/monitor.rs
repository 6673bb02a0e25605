//! `wiglaf monitor`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wiglaf_base::network::{self, Cidr};
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_monitor::{Alert, Exporter, HostState, Mail, Outcome};

use crate::join::{all_but_last, is_wanted, success_unless};
use crate::options::Global;
use crate::output;
use crate::power::hosts;

const EXAMPLES: &str = "\
Examples:
  wiglaf monitor setup --dry-run        say what would be changed, and where
  wiglaf monitor setup                  all hosts; this one watches the others
  wiglaf monitor setup --mail-to ann@lab.example --mail-server mail.lab:25
  wiglaf monitor status                 who is watched, and which alerts fire
  wiglaf monitor remove                 take everything back
  wiglaf monitor rules > wiglaf.rules   for a Prometheus that you have already

The packages are Debian's: prometheus-node-exporter on every host, prometheus
and prometheus-alertmanager on this one. They listen on the data network alone.";

/// Watch the hosts with Prometheus: temperature, cables, clocks, retransmissions
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Setup(SetupArgs),
    Remove(RemoveArgs),
    Status(StatusArgs),
    Export(ExportArgs),
    /// Print the rules of alerts, for a Prometheus of your own
    Rules,
    /// Print the dashboard, for Grafana
    Dashboard,
}

/// Install and configure what watches the hosts
///
/// It takes root on each host, or sudo without a password. A host on which it
/// fails is as it was before.
#[derive(Debug, clap::Args)]
struct SetupArgs {
    /// The hosts, this one among them [default: all]
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: Option<HostList>,

    /// Send alerts there
    #[arg(long, value_name = "ADDRESS", requires = "mail_server", value_parser = address)]
    mail_to: Option<String>,

    /// By this mail server, which must take mail without a password
    #[arg(long, value_name = "HOST:PORT", value_parser = server)]
    mail_server: Option<String>,

    /// From this sender [default: the first address]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    mail_from: Option<String>,

    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Take back what `setup` has changed
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// The hosts [default: all]
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: Option<HostList>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Show which hosts are watched, and which alerts fire
///
/// Exit status 0: all are watched, and no alert fires; 1: otherwise.
#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Write what Wiglaf counts on this machine in the text format of Prometheus
#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Into this file, for node_exporter [default: standard output]
    #[arg(long, value_name = "FILE.prom")]
    output: Option<PathBuf>,

    /// Again after so many seconds, without end
    #[arg(long, value_name = "SECONDS", requires = "output")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: Option<u64>,

    /// The data network, whose card is marked
    #[arg(long, value_name = "CIDR")]
    network: Option<Cidr>,
}

fn address(text: &str) -> Result<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._+@".contains(&b);
    match text.split_once('@') {
        Some((user, host)) if !user.is_empty() && !host.is_empty() && text.bytes().all(plain) => {
            Ok(text.to_owned())
        }
        _ => Err(Error::new("give an address such as ann@lab.example")),
    }
}

fn server(text: &str) -> Result<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-.".contains(&b);
    match text.rsplit_once(':') {
        Some((host, port))
            if !host.is_empty() && host.bytes().all(plain) && port.parse::<u16>().is_ok() =>
        {
            Ok(text.to_owned())
        }
        _ => Err(Error::new("give a host and a port, such as mail.lab.example:25")),
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.action {
        Action::Setup(args) => setup(args, &hosts(global)?),
        Action::Remove(args) => remove(args, &hosts(global)?),
        Action::Status(args) => status(args, &hosts(global)?),
        Action::Export(args) => export(args),
        Action::Rules => output::print(wiglaf_monitor::RULES).map(|()| ExitCode::SUCCESS),
        Action::Dashboard => output::print(wiglaf_monitor::DASHBOARD).map(|()| ExitCode::SUCCESS),
    }
}

fn setup(args: &SetupArgs, hosts: &Hosts) -> Result<ExitCode> {
    let chosen = hosts.select(&args.nodes.clone().unwrap_or_default())?;
    if !chosen.iter().any(|spec| spec.target.is_here) {
        return Err(Error::new(format!(
            "this machine watches the others, and is none of them; run it on one of {}",
            hosts.names()
        )));
    }
    let mail = args.mail_to.clone().zip(args.mail_server.clone()).map(|(to, server)| Mail {
        from: args.mail_from.clone().unwrap_or_else(|| to.clone()),
        to,
        server,
    });
    let plan = wiglaf_monitor::plan(hosts, &chosen, mail.as_ref()).map_err(all_but_last)?;
    for host in &plan.hosts {
        let lines = host.changes.iter().map(|change| format!("{}: {change}\n", host.name));
        output::print(&lines.collect::<String>())?;
    }
    if args.dry_run || !is_wanted(args.yes)? {
        return Ok(ExitCode::SUCCESS);
    }
    told(plan.carry_out(&|line| eprintln!("wiglaf: {line}")), "is watched", "it is as it was")
}

fn remove(args: &RemoveArgs, hosts: &Hosts) -> Result<ExitCode> {
    let chosen = hosts.select(&args.nodes.clone().unwrap_or_default())?;
    for spec in &chosen {
        output::print(&format!("{}: take back what `wiglaf monitor setup` changed\n", spec.name))?;
    }
    if !is_wanted(args.yes)? {
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = wiglaf_monitor::remove(hosts, &chosen).map_err(all_but_last)?;
    told(outcomes, "is watched no more", "it is still watched")
}

fn told(outcomes: Vec<Outcome>, done: &str, otherwise: &str) -> Result<ExitCode> {
    let mut errors = Vec::new();
    let mut names = Vec::new();
    for outcome in outcomes {
        outcome.kept.iter().for_each(|why| eprintln!("wiglaf: {why}"));
        match outcome.error {
            Some(why) => errors.push(Error::new(format!("{why}; {otherwise}"))),
            None => names.push(outcome.name),
        }
    }
    let names: HostList = names.into_iter().collect();
    if !names.names().is_empty() {
        output::print(&format!("{names}: {done}\n"))?;
    }
    success_unless(errors)
}

#[derive(Debug, Serialize)]
struct Status {
    hosts: Vec<HostState>,
    alerts: Vec<Alert>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn status(args: &StatusArgs, hosts: &Hosts) -> Result<ExitCode> {
    let states = wiglaf_monitor::hosts(hosts);
    let here = hosts.nodes.iter().find(|spec| spec.target.is_here).and_then(|spec| spec.address);
    let alerts = match here {
        Some(here) => wiglaf_monitor::alerts(here),
        None => Err(Error::new(
            "this machine is none of the hosts, or the cluster file does not say its address",
        )),
    };
    let ok = states.iter().all(|host| host.is_watched) && alerts.as_ref().is_ok_and(Vec::is_empty);
    let error = alerts.as_ref().err().map(ToString::to_string);
    let status = Status { hosts: states, alerts: alerts.unwrap_or_default(), error };
    if args.json {
        output::print_json(&status)?;
    } else {
        let mut rows = vec![["host", "watched", "counters"].map(str::to_owned).to_vec()];
        for host in &status.hosts {
            let watched = if host.is_watched { "yes" } else { "no" };
            let age = host.age_s.map_or_else(|| "-".to_owned(), |age| format!("{age} s old"));
            rows.push(vec![host.host.clone(), watched.to_owned(), age]);
        }
        output::print(&output::table(&rows))?;
        for alert in &status.alerts {
            let Alert { summary, fix, .. } = alert;
            output::print(&output::visible(&format!("alert: {summary}; {fix}")))?;
            output::print("\n")?;
        }
        let errors = status
            .hosts
            .iter()
            .filter_map(|host| host.error.as_ref().map(|error| format!("{}: {error}", host.host)));
        errors.chain(status.error.clone()).for_each(|error| eprintln!("wiglaf: {error}"));
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn export(args: &ExportArgs) -> Result<ExitCode> {
    let mut exporter = Exporter::default();
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let seen = wiglaf_counters::here();
        let text = exporter.look(&seen, &network::addresses(), args.network, now);
        match &args.output {
            Some(path) => wiglaf_monitor::write(path, &text)?,
            None => output::print(&text)?,
        }
        let Some(every) = args.every else { return Ok(ExitCode::SUCCESS) };
        std::thread::sleep(Duration::from_secs(every));
    }
}
