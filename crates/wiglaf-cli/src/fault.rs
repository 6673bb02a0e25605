//! `wiglaf fault`: a wire that loses, doubles, damages and reorders.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::{Record, StateDir};
use wiglaf_emulation::fault::{
    self, Counts, Faults, HOLD_DEFAULT, PortFaults, PortReport, Probability, Wish, parse_hold,
};
use wiglaf_emulation::up;

use crate::output;

const HELP: &str = "\
Examples:
  wiglaf fault set --drop 1%                 every node, both directions
  wiglaf fault set node1 --drop 1% --reorder 1% --duplicate 0.1%
  wiglaf fault set node2 --from --corrupt 0.1%
  wiglaf fault set node1 --down              pull the cable
  wiglaf fault show                          what was set, and what it hit
  wiglaf fault clear                         a sound wire again

Faults sit on the ports of the emulated switch and hit IPv4 frames of every
kind, TCP's like Wiglaf's. A train of segments that crosses whole (GSO) meets
its fate as one frame. They last until they are cleared or the cluster ends.";

const SET_HELP: &str = "\
Examples:
  wiglaf fault set --drop 1%
  wiglaf fault set 'node[1-2]' --to --reorder 5% --hold 2ms
  wiglaf fault set node1 --down

A share is a percentage, such as 1% or 0.1%; without the sign it is a fraction
below 1, such as 0.01. What a port did before is replaced: `--drop 1%` alone
also ends `--down`.
A corrupted frame has one bit turned over behind its Ethernet header. While any
port corrupts, the nodes compute their transmit checksums themselves, as their
emulated devices compute none, and TCP would hand damaged data on.";

/// Make the emulated wire lose, damage, double or reorder frames
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Set(SetArgs),
    Show(ShowArgs),
    Clear(ClearArgs),
}

/// Set what happens to the frames of these nodes. Needs root
#[derive(Debug, clap::Args)]
#[command(after_help = SET_HELP)]
struct SetArgs {
    /// The nodes [default: all]
    #[arg(value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Lose this share of the frames
    #[arg(long, value_name = "P%", value_parser = parse_probability, default_value = "0%")]
    #[arg(hide_default_value = true)]
    drop: Probability,

    /// Deliver this share twice
    #[arg(long, value_name = "P%", value_parser = parse_probability, default_value = "0%")]
    #[arg(hide_default_value = true)]
    duplicate: Probability,

    /// Turn one bit over in this share
    #[arg(long, value_name = "P%", value_parser = parse_probability, default_value = "0%")]
    #[arg(hide_default_value = true)]
    corrupt: Probability,

    /// Hold this share back while later frames pass
    #[arg(long, value_name = "P%", value_parser = parse_probability, default_value = "0%")]
    #[arg(hide_default_value = true)]
    reorder: Probability,

    /// How long reordered frames are held at most [default: 500us]
    #[arg(long, value_name = "TIME", value_parser = parse_hold, requires = "reorder")]
    hold: Option<Duration>,

    /// Only what the nodes send
    #[arg(long, conflicts_with = "to")]
    from: bool,

    /// Only what the nodes are sent
    #[arg(long)]
    to: bool,

    /// Pull the cable
    #[arg(long)]
    down: bool,
}

/// Show what is set, and how many frames it hit
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The nodes [default: all]
    #[arg(value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Make the wire of these nodes sound again. Needs root
#[derive(Debug, clap::Args)]
struct ClearArgs {
    /// The nodes [default: all]
    #[arg(value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,
}

fn parse_hosts(text: &str) -> Result<HostList> {
    HostList::parse(text)
}

/// One percent is what `1` looks like, and everything is what it means.
fn parse_probability(text: &str) -> Result<Probability> {
    let bare = text.trim();
    match bare.parse::<f64>() {
        Ok(share) if (1.0..=100.0).contains(&share) => {
            let percent = if bare == "1" { "one" } else { bare };
            Err(Error::new(format!(
                "`{bare}` is {:.0} %; for {percent} percent write {bare}%",
                share * 100.0
            )))
        }
        _ => Probability::parse(text),
    }
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    let record = state.running()?;
    if !matches!(args.action, Action::Show(_)) {
        up::check_is_here(state, &record)?;
    }
    match &args.action {
        Action::Set(args) => set(args, state, &record)?,
        Action::Clear(args) => {
            let wish = Wish { faults: None, hold: HOLD_DEFAULT, is_down: false };
            fault::set(state, &record, &names(args.nodes.as_ref(), &record), &wish)?;
        }
        Action::Show(args) => show(args, state, &record)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn names(wanted: Option<&HostList>, record: &Record) -> Vec<String> {
    let all = record.shape.names();
    wanted.unwrap_or(&all).names().to_vec()
}

impl SetArgs {
    fn wish(&self) -> Result<Wish> {
        let (drop, corrupt) = (self.drop, self.corrupt);
        let (duplicate, reorder) = (self.duplicate, self.reorder);
        let faults = Faults { drop, corrupt, duplicate, reorder };
        let any = faults != Faults::default();
        if !any && !self.down {
            return Err(Error::new(
                "there is no fault to set; name one such as `--drop 1%`, or use `wiglaf fault clear`",
            ));
        }
        let side = |here: bool| if here { faults } else { Faults::default() };
        let faults = PortFaults { from: side(!self.to), to: side(!self.from) };
        Ok(Wish {
            faults: any.then_some(faults),
            hold: self.hold.unwrap_or(HOLD_DEFAULT),
            is_down: self.down,
        })
    }
}

fn set(args: &SetArgs, state: &StateDir, record: &Record) -> Result<()> {
    fault::set(state, record, &names(args.nodes.as_ref(), record), &args.wish()?)
}

#[derive(Debug, Serialize)]
struct NodeReport {
    node: String,
    #[serde(flatten)]
    port: Shown,
}

/// A report as programs read it: shares instead of thresholds.
#[derive(Debug, Serialize)]
struct Shown {
    down: bool,
    from: Option<Side>,
    to: Option<Side>,
}

#[derive(Debug, Serialize)]
struct Side {
    drop: String,
    corrupt: String,
    duplicate: String,
    reorder: String,
    counts: Counts,
}

fn side(faults: &Faults, counts: Counts) -> Side {
    Side {
        drop: faults.drop.to_string(),
        corrupt: faults.corrupt.to_string(),
        duplicate: faults.duplicate.to_string(),
        reorder: faults.reorder.to_string(),
        counts,
    }
}

fn shown(report: &PortReport) -> Shown {
    Shown {
        down: report.is_down,
        from: report.faults.map(|f| side(&f.from, report.from)),
        to: report.faults.map(|f| side(&f.to, report.to)),
    }
}

fn show(args: &ShowArgs, state: &StateDir, record: &Record) -> Result<()> {
    let nodes = names(args.nodes.as_ref(), record);
    let reports = fault::show(state, record, &nodes)?;
    let reports = nodes.into_iter().zip(&reports);
    let reports: Vec<NodeReport> =
        reports.map(|(node, report)| NodeReport { node, port: shown(report) }).collect();
    match args.json {
        true => output::print_json(&reports),
        false => output::print(&table(&reports)),
    }
}

fn table(reports: &[NodeReport]) -> String {
    let heading = ["node", "frames", "count", "dropped", "corrupted", "duplicated", "reordered"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for NodeReport { node, port } in reports {
        if port.down {
            rows.push(vec![node.clone(), "cable pulled".to_owned()]);
        }
        for (direction, side) in [("sent", &port.from), ("received", &port.to)] {
            let Some(Side { drop, corrupt, duplicate, reorder, counts: c }) = side else {
                continue;
            };
            let cell = |count: u64, share: &str| format!("{count} ({share})");
            rows.push(vec![
                node.clone(),
                direction.to_owned(),
                c.frames.to_string(),
                cell(c.dropped, drop),
                cell(c.corrupted, corrupt),
                cell(c.duplicated, duplicate),
                cell(c.reordered, reorder),
            ]);
        }
        if !port.down && port.from.is_none() {
            rows.push(vec![node.clone(), "sound".to_owned()]);
        }
    }
    output::table(&rows)
}
