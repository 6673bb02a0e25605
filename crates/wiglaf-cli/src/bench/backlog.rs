//! `wiglaf bench backlog`: what a receiver finds that was away while others sent.

use std::time::Duration;

use wiglaf_base::Result;
use wiglaf_bench::backlog;

use super::launcher::Emulated;
use super::{Common, node_count, rank_count};
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,

    /// How many ranks: one receives from all others
    #[arg(long, short = 'n', default_value_t = 4, value_parser = rank_count)]
    ranks: usize,

    /// How many nodes they are spread over
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = node_count)]
    nodes: usize,

    /// For how long it is away each time, in milliseconds
    #[arg(long, default_value_t = 20, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=900))]
    away: u16,

    /// Leave out what is more messages of each sender
    #[arg(long, default_value_t = 4000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(100..))]
    messages: u32,

    /// Measure this load in place of the usual ones, such as 16000x1024 or 4000x8:last-first; may be
    /// repeated
    #[arg(long, value_name = "COUNTxBYTES[:ORDER]", conflicts_with = "messages")]
    load: Vec<backlog::Load>,

    /// How often the receiver is away in a run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    times: Option<u32>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let cluster = Cluster::find_or_start(global, &common.wish(args.nodes))?;
    let launcher = Emulated::new(&cluster, args.nodes, args.ranks, common.link, &work)?;
    let mut plan = backlog::Plan::new(args.ranks, work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    plan.away = Duration::from_millis(args.away.into());
    match args.load.is_empty() {
        true => plan.loads.retain(|load| load.count <= args.messages),
        false => plan.loads.clone_from(&args.load),
    }
    plan.times = args.times.unwrap_or(if common.quick { 5 } else { plan.times });
    let measured = backlog::measure(&launcher, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}
