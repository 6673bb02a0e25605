//! `wiglaf bench loggp`: the parameters that a model of the transports needs.

use std::time::Duration;

use wiglaf_base::{Result, machine};
use wiglaf_bench::{Launcher, loggp};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::rate::Rate;

use super::launcher::Emulated;
use super::on_hosts::OnHosts;
use super::{Common, choose, size};
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;

#[derive(Debug, clap::Args)]
pub(super) struct LogGpArgs {
    #[command(flatten)]
    common: Common,

    /// Message sizes, such as 1,1K,64K [default: 1 B to 2 MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,

    /// Leave shared memory out
    #[arg(long)]
    no_same_node: bool,
}

/// Enough for each range of sizes.
const QUICK_LENS: [u64; 8] = [1, 1 << 10, 1 << 11, 1 << 13, 1 << 14, 1 << 16, 1 << 17, 1 << 20];

pub(super) fn run(args: &LogGpArgs, global: &Global, hosts: Option<Hosts>) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let mut plan = loggp::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    if common.quick {
        plan.budget = Duration::from_millis(5);
        plan.lens = QUICK_LENS.to_vec();
    }
    choose(&mut plan.lens, &args.sizes);
    let mut rate = None;
    let measured = match hosts {
        Some(hosts) => {
            let launcher = OnHosts::new(hosts, common)?;
            let within = (!args.no_same_node).then_some(&launcher as &dyn Launcher);
            loggp::measure(&launcher, within, &plan, &mut progress)
        }
        None => {
            let one = Wish { nodes: 1, free_cores: true, ..Wish::default() };
            let [two, one] = match args.no_same_node {
                true => [Some(Cluster::find_or_start(global, &common.wish(2))?), None],
                false => Cluster::find_or_start_all(global, [&common.wish(2), &one])?.map(Some),
            };
            let launcher = |cluster, nodes| Emulated::new(cluster, nodes, 2, common.link, &work);
            let between = two.as_ref().map(|cluster| launcher(cluster, 2)).transpose()?;
            let within = one.as_ref().map(|cluster| launcher(cluster, 1)).transpose()?;
            plan.cores = machine::cores();
            rate = two.as_ref().and_then(|cluster| {
                cluster.record.shape.nodes.first()?.rate.map(Rate::bits_per_second)
            });
            let within = within.as_ref().map(|launcher| launcher as &dyn Launcher);
            let Some(between) = between else { return Ok(()) };
            loggp::measure(&between, within, &plan, &mut progress)
        }
    };
    interrupt::check()?;
    let mut report = measured.map_err(plain)?;
    report.rate = rate;
    common.publish(&report)
}
