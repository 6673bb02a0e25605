//! `wiglaf bench collectives`.

use std::time::Duration;

use wiglaf_base::Result;
use wiglaf_bench::collectives::{self, OPERATIONS, Plan};

use super::launcher::Emulated;
use super::{Common, node_count, size};
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,

    /// How many nodes
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = node_count)]
    nodes: usize,

    /// How many ranks, spread over the nodes [default: one on each]
    #[arg(long, short = 'n', value_name = "N", value_parser = super::rank_count)]
    ranks: Option<usize>,

    /// Some of the operations: barrier, bcast, reduce, allreduce, reduce_scatter, allgather(v),
    /// alltoall(v), gather, scatter, ring, halo (of a 3-D grid), ibcast, iallreduce, iallgather,
    /// ialltoall [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = OPERATIONS)]
    operations: Vec<String>,

    /// Lengths, such as 8,64K,1M [default: 4 B to 4 MiB, each four times the one before]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let ranks = args.ranks.unwrap_or(args.nodes);
    let cluster = Cluster::find_or_start(global, &common.wish(args.nodes))?;
    let launcher = Emulated::new(&cluster, args.nodes, ranks, common.link, &work)?;
    let mut plan = Plan::new(ranks, work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    if common.quick {
        plan.budget = Duration::from_millis(10);
        plan.lengths = vec![8, 1 << 10, 64 << 10, 1 << 20];
    }
    if !args.operations.is_empty() {
        plan.operations.clone_from(&args.operations);
    }
    if !args.sizes.is_empty() {
        plan.lengths.clone_from(&args.sizes);
    }
    let measured = collectives::measure(&launcher, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}
