//! Benchmarks of situations rather than of sizes: shaped ports, loss, incast,
//! shared cores, silence, memory.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use wiglaf_base::{Error, Result};
use wiglaf_bench::outcome::{Entry, Missing, Outcome};
use wiglaf_bench::turns::Guard;
use wiglaf_bench::{
    BenchError, Launcher, Settings, Transport, flow_control, idle, incast, loss, memory,
    oversubscribed, shaped,
};
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::shape::Wire;
use wiglaf_cluster::{Record, StateDir};
use wiglaf_compare::programs::ESPRESSO;
use wiglaf_emulation::fault::{self, Faults, HOLD_DEFAULT, PortFaults, Probability};
use wiglaf_sim::{Incast, Star};

use super::launcher::Emulated;
use super::strangers::Strangers;
use super::{Common, need_openmpi};
use crate::compare::Nodes;
use crate::compare::known::{Compared, Plan, compare};
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, make_folder, plain, progress, work_folder};
use crate::options::Global;

/// What ports are shaped to unless the user says otherwise.
const RATE: &str = "1gbit";
const MTUS: [u32; 2] = [1500, 9000];

const SHAPED_HELP: &str = "\
Examples:
  wiglaf bench shaped                  1 Gbit/s, MTU 1500 and 9000
  wiglaf bench shaped --quick          the same in half a minute, coarser
  wiglaf bench shaped --rate 2.5gbit --mtu 4000 --repeats 3

The ceiling is what Wiglaf's headers leave of the rate, as the shaper counts
frames. TCP's headers are shorter: it may pass that ceiling.";

/// Ports shaped to a rate: goodput against what the headers leave
#[derive(Debug, clap::Args)]
#[command(after_help = SHAPED_HELP)]
pub(super) struct ShapedArgs {
    #[command(flatten)]
    common: Common,
}

const LOSS_HELP: &str = "\
Examples:
  wiglaf bench loss                    1 % of the frames in either direction
  wiglaf bench loss --share 0.1% --repeats 3
  wiglaf bench loss --rate 10gbit --quick

The emulated switch loses frames for either node, of every contender alike.
Who is not done within a minute is struck off, and the table says so.";

/// A wire that loses frames: goodput, and recovery of the last packet
#[derive(Debug, clap::Args)]
#[command(after_help = LOSS_HELP)]
pub(super) struct LossArgs {
    #[command(flatten)]
    common: Common,

    /// Share of the frames that are lost, each way
    #[arg(long, value_name = "P%", default_value = "1%")]
    share: String,
}

impl Common {
    /// A switch with shaped ports.
    fn shaped_wish(&self, nodes: usize, mtu: u32) -> Result<(Wish, Rate)> {
        if matches!(self.wire, Some(Wire::Direct)) {
            return Err(Error::new("a direct wire has no switch whose ports could be shaped"));
        }
        let rate = self.rate.map_or_else(|| Rate::parse(RATE), Ok)?;
        let (wire, mtu) = (Some(Wire::Bridge), Some(mtu));
        Ok((Wish { wire, rate: Some(rate), mtu, ..self.wish(nodes) }, rate))
    }

    /// Before a cluster is started for nothing; gives the working folder.
    pub(super) fn prepare(&self) -> Result<PathBuf> {
        need_openmpi()?;
        make_folder(&self.output)?;
        work_folder(&self.output)
    }

    fn finish(&self, measured: wiglaf_bench::Result<Outcome>) -> Result<()> {
        interrupt::check()?;
        self.publish(&measured.map_err(plain)?)
    }
}

pub(super) fn shaped(args: &ShapedArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let [first, second] = common.mtu.map_or(MTUS, |mtu| [mtu; 2]);
    let (wish, rate) = common.shaped_wish(2, first)?;
    let mut plan = shaped::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    plan.bits_per_s = rate.bits_per_second();
    let launcher = |cluster| Emulated::new(cluster, 2, 2, common.link, &work);
    let measured = if first == second {
        let cluster = Cluster::find_or_start(global, &wish)?;
        shaped::measure(&[(first, &launcher(&cluster)?)], &plan, &mut progress)
    } else {
        let (other, _) = common.shaped_wish(2, second)?;
        let [one, two] = &Cluster::find_or_start_all(global, [&wish, &other])?;
        let wires = [launcher(one)?, launcher(two)?];
        shaped::measure(&[(first, &wires[0]), (second, &wires[1])], &plan, &mut progress)
    };
    common.finish(measured)
}

pub(super) fn loss(args: &LossArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let drop = Probability::parse(&args.share)?;
    let work = common.prepare()?;
    let (wish, _) = common.shaped_wish(2, common.mtu.unwrap_or(MTUS[0]))?;
    let cluster = Cluster::find_or_start(global, &wish)?;
    let launcher = Emulated::new(&cluster, 2, 2, common.link, &work)?;
    let mut plan = loss::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    plan.share = drop.share();
    let lose = || {
        Lossy::begin(&cluster, drop).map(|guard| Box::new(guard) as Guard).map_err(|e| bench(&e))
    };
    common.finish(loss::measure(&launcher, &lose, &plan, &mut progress))
}

fn bench(error: &Error) -> BenchError {
    BenchError::Run { what: "the emulated wire".to_owned(), detail: error.to_string() }
}

/// A wire that loses frames for as long as this lives.
struct Lossy {
    state: StateDir,
    record: Record,
}

impl Lossy {
    /// What is sent to each node meets the loss once.
    fn begin(cluster: &Cluster, drop: Probability) -> Result<Self> {
        let to = Faults { drop, ..Faults::default() };
        let lossy = Self { state: cluster.state.clone(), record: cluster.record.clone() };
        lossy.set(Some(PortFaults { to, ..PortFaults::default() }))?;
        Ok(lossy)
    }

    fn set(&self, faults: Option<PortFaults>) -> Result<()> {
        let wish = fault::Wish { faults, hold: HOLD_DEFAULT, is_down: false };
        fault::set(&self.state, &self.record, self.record.shape.names().names(), &wish)
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        if let Err(error) = self.set(None) {
            eprintln!("wiglaf: {error}");
        }
    }
}

const INCAST_HELP: &str = "\
Examples:
  wiglaf bench incast                  8 senders, ports of 1 Gbit/s
  wiglaf bench incast --senders 4 --quick
  wiglaf bench incast --mtu 9000 --repeats 3

The receiver's line against that of one sender, Jain's index of the senders'
shares, what the kernel and Wiglaf counted; and the same simulated.";

/// Many senders to one receiver: use of its line, fairness, overruns
#[derive(Debug, clap::Args)]
#[command(after_help = INCAST_HELP)]
pub(super) struct IncastArgs {
    #[command(flatten)]
    common: Common,

    /// How many send at once
    #[arg(long, default_value_t = 8, value_name = "N",
          value_parser = clap::value_parser!(u8).range(2..=32))]
    senders: u8,
}

pub(super) fn incast(args: &IncastArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let mtu = common.mtu.unwrap_or(MTUS[0]);
    let mut plan = incast::Plan::new(work.clone());
    plan.senders = usize::from(args.senders);
    plan.rounds = common.rounds(plan.rounds, 2);
    let (wish, rate) = common.shaped_wish(plan.senders + 1, mtu)?;
    let cluster = Cluster::find_or_start(global, &wish)?;
    let of = |ranks| Emulated::new(&cluster, ranks, ranks, common.link, &work);
    let (one, all) = (of(2)?, of(plan.senders + 1)?);
    progress("simulating");
    let simulated = simulate(plan.senders, mtu, rate)?;
    common.finish(incast::measure(&one, &all, Some(simulated), &plan, &mut progress))
}

/// One sender and all of them, in virtual time; the switch holds 128 frames.
fn simulate(senders: usize, mtu: u32, rate: Rate) -> Result<incast::Simulated> {
    const SETTLE: Duration = Duration::from_millis(100);
    const MEASURED: Duration = Duration::from_millis(300);
    let run = |senders: usize| {
        let mut scenario = Incast::new(senders);
        scenario.frame_len_max = mtu as usize - 28;
        scenario.switch.bits_per_s = rate.bits_per_second();
        scenario.switch.queue_len = 128 * (u64::from(mtu) + 38);
        scenario.run(1, SETTLE, MEASURED).map_err(Error::new)
    };
    let (one, all) = (run(1)?, run(senders)?);
    Ok(incast::Simulated {
        one_megabytes_per_s: one.bits_per_s() / 8e6,
        all_megabytes_per_s: all.bits_per_s() / 8e6,
        fairness: all.fairness(),
    })
}

const FLOW_CONTROL_HELP: &str = "\
Examples:
  wiglaf bench flow-control            4 senders to one, ports of 1 Gbit/s
  wiglaf bench flow-control --rate 100mbit --repeats 3

Wall time, processor time and what had to be sent again, with flow control and
with WIGLAF_FLOW_CONTROL=off, beside Open MPI's TCP. Without, it is chance how
long it takes: after 15 s it is cut off, and the table says > 15.";

/// One workload with flow control and without it
#[derive(Debug, clap::Args)]
#[command(after_help = FLOW_CONTROL_HELP)]
pub(super) struct FlowControlArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) fn flow_control(args: &FlowControlArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let mut plan = flow_control::Plan::new(work.clone());
    plan.mtu = common.mtu.unwrap_or(plan.mtu);
    plan.rounds = common.rounds(plan.rounds, 2);
    let (wish, _) = common.shaped_wish(plan.senders + 1, plan.mtu)?;
    let cluster = Cluster::find_or_start(global, &wish)?;
    let ranks = plan.senders + 1;
    let launcher = Emulated::new(&cluster, ranks, ranks, common.link, &work)?;
    common.finish(flow_control::measure(&launcher, &plan, &mut progress))
}

const OVERSUBSCRIBED_HELP: &str = "\
Examples:
  wiglaf bench oversubscribed          4 and 8 ranks on this machine's cores
  wiglaf bench oversubscribed --ranks 6 --repeats 3
  wiglaf bench oversubscribed --quick

Ring, all-to-all and Quantum ESPRESSO; each also beside a stranger, a program
that computes, on every core. There Quantum ESPRESSO runs with the first number
of ranks, over Wiglaf and over that rival that was the fastest without: a run
takes a minute. With the other numbers it runs if there are 6 rounds or more.";

/// More ranks than cores, alone and beside strangers
#[derive(Debug, clap::Args)]
#[command(after_help = OVERSUBSCRIBED_HELP)]
pub(super) struct OversubscribedArgs {
    #[command(flatten)]
    common: Common,

    /// How many ranks, each on a node of its own
    #[arg(long, short = 'n', value_name = "LIST", value_delimiter = ',', default_value = "4,8")]
    #[arg(value_parser = super::rank_count)]
    ranks: Vec<usize>,
}

pub(super) fn oversubscribed(args: &OversubscribedArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let mut plan = oversubscribed::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    // One takes a minute for each contender.
    plan.application_rounds = plan.rounds.div_ceil(5);
    let most = args.ranks.iter().copied().max().unwrap_or(2);
    let cluster = Rc::new(Cluster::find_or_start(global, &common.wish(most))?);
    let of = |ranks: &usize| Emulated::new(&cluster, *ranks, *ranks, common.link, &work);
    let failed = |error: Error| BenchError::NoContender(error.to_string());
    let espresso = |ranks: usize, repeats, transports: &[Transport]| {
        let launcher = of(&ranks).map_err(failed)?;
        let plan = Plan {
            nodes: &[ranks],
            repeats,
            transports,
            link: common.link,
            work: &work,
            settings: Settings::new(),
        };
        let found = compare(&ESPRESSO, &plan, &Nodes::Emulated(cluster.clone()));
        entries(&found.map_err(failed)?, &launcher, transports)
    };
    let launchers = args.ranks.iter().map(of).collect::<Result<Vec<_>>>()?;
    let jobs: Vec<(usize, &dyn Launcher)> =
        args.ranks.iter().zip(&launchers).map(|(ranks, one)| (*ranks, one as _)).collect();
    let strangers = || Ok(Box::new(Strangers::begin()) as Guard);
    common.finish(oversubscribed::measure(&jobs, &strangers, &espresso, &plan, &mut progress))
}

/// The wall times of each transport's rounds, and who has none.
fn entries(
    found: &Compared,
    launcher: &Emulated<'_>,
    transports: &[Transport],
) -> wiglaf_bench::Result<(Vec<Entry>, Vec<Missing>)> {
    if let Err(error) = &found.energies {
        return Err(BenchError::NoContender(error.to_string()));
    }
    let (mut entries, mut missing) = (Vec::new(), Vec::new());
    for &transport in transports {
        let is_it = |way: usize| found.report.ways[way].word == transport.word();
        let runs = found.report.runs.iter().filter(|run| is_it(run.way));
        let walls: Vec<f64> = runs.map(|run| run.wall_s).collect();
        let who = transport.label();
        if let Some(failure) = found.report.failures.iter().find(|failure| is_it(failure.way)) {
            let reason = failure.reason.clone();
            missing.push(Missing { who: who.to_owned(), case: None, reason });
        } else {
            let settings = launcher.settings(transport).unwrap_or_default();
            entries.push(Entry { settings, ..Entry::of_rounds(who, Some(transport), walls) });
        }
    }
    Ok((entries, missing))
}

const IDLE_HELP: &str = "\
Examples:
  wiglaf bench idle
  wiglaf bench idle --link udp --repeats 3

What a rank that waits in MPI_Recv takes of its core after 5 ms of silence (its
processor time from 10 ms on, over half a second), and the time of a message and
its answer after 105 ms, against a TCP socket: the rank that waits blocks, the
rank that asks polls, so that there is one wake-up in it as over an MPI.";

/// What waiting for long costs, and how soon it ends
#[derive(Debug, clap::Args)]
#[command(after_help = IDLE_HELP)]
pub(super) struct IdleArgs {
    #[command(flatten)]
    common: Common,
}

pub(super) fn idle(args: &IdleArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let mut plan = idle::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    let cluster = Cluster::find_or_start(global, &common.wish(2))?;
    let launcher = Emulated::new(&cluster, 2, 2, common.link, &work)?;
    common.finish(idle::measure(&launcher, &plan, &mut progress))
}

const MEMORY_HELP: &str = "\
Examples:
  wiglaf bench memory                  10^7 messages, half a minute
  wiglaf bench memory --quick          10^6 messages

An idle peer's memory in the transport; the growth of a rank over many messages;
and what a receiver holds of 64 MiB that nobody has asked for: at most 1 MiB, of
which 512 KiB are the credit of one peer, 256 KiB 64 bytes for each message, and
the rest what the allocator and the kernel take in steps. (The credit grows, up
to 2 MiB, for peers whose messages are received after all.)";

/// Memory of idle peers, of many messages, of unexpected ones
#[derive(Debug, clap::Args)]
#[command(after_help = MEMORY_HELP)]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    common: Common,
}

/// What a receiver holds at most of one peer's unexpected messages, as the help says it.
const UNEXPECTED_CAP: u64 = 1 << 20;

pub(super) fn memory(args: &MemoryArgs, global: &Global) -> Result<()> {
    const PEERS: usize = 10_000;
    let common = &args.common;
    let work = common.prepare()?;
    let mut plan = memory::Plan::new(UNEXPECTED_CAP, work.clone());
    plan.rounds = common.rounds(plan.rounds, 1);
    if common.quick {
        plan.messages /= 10;
    }
    let idle = Star::idle_peer_bytes(PEERS, &mut resident).map_err(Error::new)?;
    let cluster = Cluster::find_or_start(global, &common.wish(2))?;
    let launcher = Emulated::new(&cluster, 2, 2, common.link, &work)?;
    common.finish(memory::measure(&launcher, Some(idle), &plan, &mut progress))
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
