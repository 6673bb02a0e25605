//! `wiglaf bench`.

mod all;
mod backlog;
mod collectives;
mod files;
#[cfg(feature = "trials")]
mod hostile;
pub(crate) mod launcher;
mod loggp;
mod on_hosts;
mod reports;
mod set;
mod strangers;
mod transformation;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, machine};
use wiglaf_bench::contender::{Absent, CONTENDERS, SAME_NODE};
use wiglaf_bench::facts::Facts;
use wiglaf_bench::outcome::{Figure, Wanted};
use wiglaf_bench::report::Reported;
use wiglaf_bench::{Launcher, bandwidth, pingpong, report, ring};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::shape::Wire;
use wiglaf_compare::Point;
use wiglaf_compare::programs::Program;
use wiglaf_emulation::wire::SingleFrames;
use wiglaf_link::LinkKind;
use wiglaf_mpi::{self as mpi, Choice, Family, Transport};

use crate::choices::{any, one_of};
use crate::compare::Nodes;
use crate::compare::known::{Plan, check_needed, compare};
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;
use crate::output;
use launcher::Emulated;

use on_hosts::OnHosts;

const HELP: &str = "\
Examples:
  wiglaf bench pingpong                  latency and bandwidth, 1 B to 4 MiB
  wiglaf bench pingpong --quick          the same in half a minute, coarser
  wiglaf bench pingpong --sizes 8,64K,1M --repeats 9 --link udp
  wiglaf bench pingpong --links auto,packet,xdp,udp
                                         Wiglaf's links beside each other
  wiglaf bench pingpong --wire direct    on a cable, without a switch
  wiglaf bench pingpong --same-node      shared memory, beside vader and UCX
  wiglaf bench bandwidth                 windows of 64 messages, 8 B to 4 MiB,
                                         one way and both; rate of short ones
  wiglaf bench bandwidth --single-frames the same without GSO, TSO, GRO
  wiglaf bench shaped                    ports of 1 Gbit/s, MTU 1500 and 9000
  wiglaf bench loss                      the same with 1 % of the frames lost
  wiglaf bench incast                    eight senders to one receiver
  wiglaf bench flow-control              what happens without it
  wiglaf bench oversubscribed            4 and 8 ranks, also beside strangers
  wiglaf bench idle                      what waiting for long costs
  wiglaf bench memory                    of peers, and of unexpected messages
  wiglaf bench ring --ranks 4 --nodes 4  ranks that share cores
  wiglaf bench collectives --nodes 8 --rate 1gbit
                                         barrier, bcast, allreduce, halo, ...
  wiglaf bench collectives --operations allreduce,bcast --sizes 8,64K
  wiglaf bench loggp                     L, o, g, G of each transport by size
  wiglaf bench backlog                   messages to a receiver that was away
  wiglaf bench all --minutes 20          everything, and a table of all figures
  wiglaf bench applications              whole programs on one node and two
  wiglaf bench files --quick             remote files: Wiglaf, sshfs, NFS
  wiglaf bench transformation            what they are worth to a program
  wiglaf bench reports *.json            files of `compare` and `predict --json`

Wiglaf and every TCP rival that is installed take turns with the same program on
the same nodes and cores. A cluster that is up is used if it is as the options
say; else one is started for the measurement. The table goes to standard
output, progress to standard error, and the results to files in --output.";

/// Measure Wiglaf beside TCP
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Ends when the process of this number does, which has started it
    #[arg(long, hide = true, value_name = "PID")]
    parent: Option<u32>,

    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Latency and bandwidth against message size, between two nodes
    Pingpong(PingpongArgs),
    /// Streams between two nodes, one way and both ways at once
    Bandwidth(BandwidthArgs),
    /// Ports shaped to a rate: goodput against what the headers leave
    Shaped(set::ShapedArgs),
    /// A wire that loses frames: goodput, and recovery of the last packet
    Loss(set::LossArgs),
    /// Many senders to one receiver: use of its line, fairness, overruns
    Incast(set::IncastArgs),
    /// One workload with flow control and without it
    FlowControl(set::FlowControlArgs),
    /// More ranks than cores, alone and beside strangers
    Oversubscribed(set::OversubscribedArgs),
    /// What waiting for long costs, and how soon it ends
    Idle(set::IdleArgs),
    /// Memory of idle peers, of many messages, of unexpected ones
    Memory(set::MemoryArgs),
    /// Ranks in a circle: what becomes of a transport when ranks share cores
    Ring(RingArgs),
    /// Collectives and exchanges, blocking or not, by operation and length
    Collectives(collectives::Args),
    /// Latency, overheads and gaps by size: what `wiglaf predict` computes with
    #[command(name = "loggp")]
    LogGp(loggp::LogGpArgs),
    /// Thousands of messages to a receiver that was away while they were sent
    Backlog(backlog::Args),
    #[cfg(feature = "trials")]
    /// A stream while a stranger on the network floods its receiver
    Hostile(hostile::Args),
    /// The whole set, within a given time
    All(all::AllArgs),
    /// Quantum ESPRESSO and NWChem, serial, over TCP and over Wiglaf
    Applications(ApplicationsArgs),
    /// Files of another node, beside sshfs, NFS, a TCP stream and the local disk
    Files(files::FilesArgs),
    /// Results of `compare` and `predict` as one page, beside what reports published
    Reports(reports::ReportsArgs),
    /// A program with files on the disks of 1, 2 and 3 nodes, by every way to them
    Transformation(transformation::TransformationArgs),
}

#[derive(Debug, clap::Args)]
struct PingpongArgs {
    #[command(flatten)]
    common: Common,

    /// How many nodes the cluster must have; the first two are used
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = node_count)]
    nodes: usize,

    /// Both ranks on one node, one on each of the first two cores: shared memory
    /// beside Open MPI's vader and UCX's
    #[arg(long, conflicts_with_all = ["nodes", "wire", "rate"])]
    same_node: bool,

    /// Message sizes, such as 0,8,64K,1M [default: 0 B to 4 MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,

    /// Links against each other in place of rivals: auto beside the best of the others
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = one_of(&RACING.map(|(link, _)| link)))]
    #[arg(conflicts_with_all = ["same_node", "link"])]
    links: Vec<LinkKind>,
}

/// Links as contenders, and what they are to reports.
const RACING: [(LinkKind, wiglaf_bench::Transport); 5] = [
    (LinkKind::Auto, wiglaf_bench::Transport::Wiglaf),
    (LinkKind::Udp, wiglaf_bench::Transport::WiglafUdp),
    (LinkKind::Packet, wiglaf_bench::Transport::WiglafPacket),
    (LinkKind::Xdp, wiglaf_bench::Transport::WiglafXdp),
    (LinkKind::XdpNative, wiglaf_bench::Transport::WiglafXdpNative),
];

#[derive(Debug, clap::Args)]
struct BandwidthArgs {
    #[command(flatten)]
    common: Common,

    /// How many nodes the cluster must have; the first two are used
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = node_count)]
    nodes: usize,

    /// Messages under way at once in each direction
    #[arg(long, default_value_t = 64, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1024))]
    window: u64,

    /// Message sizes, such as 8,64K,1M [default: 8 B to 4 MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,

    /// Switch the offloads of the nodes' interfaces off (segmentation, checksums, GRO): all
    /// contenders send and receive single frames
    #[arg(long)]
    single_frames: bool,
}

#[derive(Debug, clap::Args)]
struct RingArgs {
    #[command(flatten)]
    common: Common,

    /// How many ranks
    #[arg(long, short = 'n', default_value_t = 4, value_parser = rank_count)]
    ranks: usize,

    /// How many nodes they are spread over
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = node_count)]
    nodes: usize,
}

#[derive(Debug, clap::Args)]
struct ApplicationsArgs {
    #[command(flatten)]
    common: Common,

    /// How many ranks, each on a node of its own
    #[arg(long, short = 'n', default_value_t = 2, value_parser = rank_count)]
    ranks: usize,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// How often each contender runs [default: 5; 10 for shaped, loss, incast, flow-control,
    /// oversubscribed and idle; 3 for files and transformation; 1 for applications and memory]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,

    /// Measure for a shorter time
    #[arg(long)]
    quick: bool,

    /// Which of Wiglaf's links
    #[arg(long, value_parser = one_of(&BETWEEN_NODES), default_value = "auto")]
    link: LinkKind,

    /// What joins the nodes [default: as it is, else bridge]
    #[arg(long, value_parser = any::<Wire>())]
    wire: Option<Wire>,

    /// Rate of each port of the switch, such as 1gbit [default: as it is; 1gbit for shaped, loss,
    /// incast and flow-control]
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    rate: Option<Rate>,

    /// MTU of every interface [default: as it is, else 1500; 1500 and 9000 for shaped]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// Uses a cluster that is up only if it is like one that would be started
    #[arg(long, hide = true)]
    as_usual: bool,

    /// Folder for the results
    #[arg(long, short, value_name = "DIR", default_value = "wiglaf-bench")]
    output: PathBuf,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Shared memory is not among them: it joins no two nodes.
const BETWEEN_NODES: [LinkKind; 7] = [
    LinkKind::Auto,
    LinkKind::Udp,
    LinkKind::Packet,
    LinkKind::Xdp,
    LinkKind::XdpGeneric,
    LinkKind::XdpNative,
    LinkKind::XdpZeroCopy,
];

impl Common {
    fn wish(&self, nodes: usize) -> Wish {
        let (wire, rate, mtu, as_usual) = (self.wire, self.rate, self.mtu, self.as_usual);
        Wish { nodes, wire, rate, mtu, as_usual, free_cores: false }
    }

    fn rounds(&self, usual: usize, quick: usize) -> usize {
        self.repeats.map_or(if self.quick { quick } else { usual }, usize::from)
    }

    /// Writes a result and prints it, where it is, and what was left out.
    fn publish(&self, report: &impl Reported) -> Result<()> {
        let written = report.write(&self.output).map_err(plain)?;
        self.show(report, &report.table(), &written.files)?;
        written.notes.iter().for_each(|note| eprintln!("wiglaf: {note}"));
        Ok(())
    }

    /// Prints the result and says where its files are.
    fn show(&self, report: &impl Serialize, table: &str, files: &[PathBuf]) -> Result<()> {
        match self.json {
            true => output::print_json(report)?,
            false => output::print(table)?,
        }
        for file in files {
            eprintln!("wiglaf: written {}", file.display());
        }
        Ok(())
    }

    /// Writes the result and its table.
    fn write(&self, name: &str, report: &impl Serialize, table: &str) -> Result<Vec<PathBuf>> {
        let folder = &self.output;
        let [json, text] = ["json", "txt"].map(|ending| folder.join(format!("{name}.{ending}")));
        report::write(report, &json).map_err(plain)?;
        std::fs::write(&text, table).cannot(|| format!("write {}", text.display()))?;
        Ok(vec![json, text])
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if let Some(parent) = args.parent {
        all::end_with(parent)?;
    }
    let hosts = match &args.what {
        What::Reports(_) => None,
        what => on_hosts::meant(what, global)?,
    };
    match &args.what {
        What::Pingpong(args) => run_pingpong(args, global, hosts)?,
        What::Bandwidth(args) => run_bandwidth(args, global, hosts)?,
        What::Shaped(args) => set::shaped(args, global)?,
        What::Loss(args) => set::loss(args, global)?,
        What::Incast(args) => set::incast(args, global)?,
        What::FlowControl(args) => set::flow_control(args, global)?,
        What::Oversubscribed(args) => set::oversubscribed(args, global)?,
        What::Idle(args) => set::idle(args, global)?,
        What::Memory(args) => set::memory(args, global)?,
        What::Ring(args) => run_ring(args, global)?,
        What::Collectives(args) => collectives::run(args, global)?,
        What::LogGp(args) => loggp::run(args, global, hosts)?,
        What::Backlog(args) => backlog::run(args, global)?,
        #[cfg(feature = "trials")]
        What::Hostile(args) => hostile::run(args, global)?,
        What::All(args) => all::run(args, global)?,
        What::Applications(args) => run_applications(args, global)?,
        What::Files(args) => files::run(args, global)?,
        What::Reports(args) => reports::run(args)?,
        What::Transformation(args) => transformation::run(args, global)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts programs on the hosts, or on the nodes of the cluster.
fn launcher<'a>(
    hosts: Option<Hosts>,
    cluster: Option<&'a Cluster>,
    common: &Common,
    nodes: usize,
    work: &'a Path,
) -> Result<Box<dyn Launcher + 'a>> {
    match (hosts, cluster) {
        (Some(hosts), _) => Ok(Box::new(OnHosts::new(hosts, common)?)),
        (None, Some(cluster)) => Ok(Box::new(Emulated::new(cluster, nodes, 2, common.link, work)?)),
        (None, None) => Err(Error::new("there are no nodes to measure on")),
    }
}

fn run_pingpong(args: &PingpongArgs, global: &Global, hosts: Option<Hosts>) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let wish = match args.same_node {
        true => Wish { free_cores: true, ..common.wish(1) },
        false => common.wish(args.nodes),
    };
    let cluster = match &hosts {
        Some(_) => None,
        None => Some(Cluster::find_or_start(global, &wish)?),
    };
    let nodes = if args.same_node { 1 } else { 2 };
    let launcher = launcher(hosts, cluster.as_ref(), common, nodes, &work)?;
    let mut plan = pingpong::Plan::new(work.clone());
    if args.same_node {
        plan.contenders = SAME_NODE.to_vec();
        plan.cores = machine::cores();
    }
    if !args.links.is_empty() {
        plan.contenders = args
            .links
            .iter()
            .filter_map(|asked| RACING.iter().find(|(link, _)| link == asked))
            .map(|(_, racer)| *racer)
            .collect();
    }
    plan.rounds = common.rounds(plan.rounds, 2);
    if common.quick {
        plan.budget = Duration::from_millis(20);
        plan.lens = QUICK_LENS.to_vec();
    }
    choose(&mut plan.lens, &args.sizes);
    let measured = pingpong::measure(&*launcher, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}

fn run_bandwidth(args: &BandwidthArgs, global: &Global, hosts: Option<Hosts>) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let cluster = match &hosts {
        Some(_) => None,
        None => Some(Cluster::find_or_start(global, &common.wish(args.nodes))?),
    };
    let launcher = launcher(hosts, cluster.as_ref(), common, 2, &work)?;
    let _single = match (&cluster, args.single_frames) {
        (Some(cluster), true) => Some(SingleFrames::begin(&cluster.record)?),
        _ => None,
    };
    let mut plan = bandwidth::Plan::new(work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    plan.window = args.window;
    if common.quick {
        plan.budget = Duration::from_millis(20);
    }
    choose(&mut plan.lens, &args.sizes);
    let measured = bandwidth::measure(&*launcher, &plan, &mut progress);
    interrupt::check()?;
    let mut report = measured.map_err(plain)?;
    if args.single_frames {
        report.facts.nodes.insert(bandwidth::OFFLOADS.to_owned(), "off".to_owned());
    }
    common.publish(&report)
}

/// What the user asked for, if anything, each once and in order.
fn choose(lens: &mut Vec<u64>, wanted: &[u64]) {
    if !wanted.is_empty() {
        wanted.clone_into(lens);
        lens.sort_unstable();
        lens.dedup();
    }
}

fn run_ring(args: &RingArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let cluster = Cluster::find_or_start(global, &common.wish(args.nodes))?;
    let launcher = Emulated::new(&cluster, args.nodes, args.ranks, common.link, &work)?;
    let mut plan = ring::Plan::new(args.ranks, work.clone());
    plan.rounds = common.rounds(plan.rounds, 2);
    if common.quick {
        plan.budget = Duration::from_millis(300);
    }
    let measured = ring::measure(&launcher, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}

/// What `applications` writes down.
#[derive(Serialize, Deserialize)]
struct Programs {
    schema: String,
    facts: Facts,
    /// Transports that are not to be had, and why.
    absent: Vec<Absent>,
    /// Each program's name and report; the last of its nodes are those asked for.
    programs: Vec<(String, wiglaf_compare::Report)>,
}

impl Programs {
    fn of(launcher: &Emulated<'_>) -> Self {
        let absent = CONTENDERS.into_iter().filter_map(|transport| {
            let reason = launcher.settings(transport).err()?;
            Some(Absent { transport, reason })
        });
        Self {
            schema: "wiglaf-bench/applications/2".to_owned(),
            facts: Facts::gather(launcher.facts()),
            absent: absent.collect(),
            programs: Vec::new(),
        }
    }

    /// The figures that are wanted.
    fn figures(&self) -> Vec<Figure> {
        let most = |name: &str, word: &str, of: fn(&Point) -> f64| {
            let report = self.programs.iter().find(|(of, _)| of == word).map(|(_, report)| report);
            let last = |report: &wiglaf_compare::Report| report.places.len().saturating_sub(1);
            let found = report.and_then(|report| report.against_the_best(last(report), of));
            let rival = found.map_or("the best over TCP", |(_, rival)| rival);
            let detail = format!("of that over {rival}");
            Figure::ratio(name, Wanted::AtMost(0.5), found.map(|(ratio, _)| ratio), detail)
        };
        vec![
            most("NWChem SCF, 2 nodes, wall", "nwchem", |point| point.wall_s),
            most("Quantum ESPRESSO, 2 nodes, wall - CPU", "espresso", |point| point.idle_s),
        ]
    }
}

fn run_applications(args: &ApplicationsArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let cluster = Rc::new(Cluster::find_or_start(global, &common.wish(args.ranks.max(2)))?);
    let launcher = Emulated::new(&cluster, args.ranks, args.ranks, common.link, &work)?;
    let plan = Plan {
        nodes: &[1, args.ranks],
        repeats: common.rounds(1, 1),
        transports: &[],
        link: common.link,
        work: &work,
        settings: launcher.settings(wiglaf_bench::Transport::Wiglaf).map_err(Error::new)?,
    };
    let (mut report, mut table, mut failure) = (Programs::of(&launcher), String::new(), None);
    for program in &Program::ALL {
        check_needed(program.needs, program.title)?;
        let compared = compare(program, &plan, &Nodes::Emulated(cluster.clone()))?;
        table.push_str(&format!("{}\n", compared.text));
        let (of_program, verdict) = compared.verdict();
        failure = failure.or(verdict.err());
        report.programs.push((program.word.to_owned(), of_program));
    }
    let files = common.write("applications", &report, &table)?;
    common.show(&report, &table, &files)?;
    failure.map_or(Ok(()), Err)
}

/// Before a cluster is started for nothing.
fn need_openmpi() -> Result<()> {
    mpi::installation(&Choice::any(Family::OpenMpi), Transport::Tcp).map(drop)
}

/// Enough for the shape of the curve.
const QUICK_LENS: [u64; 13] =
    [0, 1, 8, 64, 512, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 21, 1 << 22];

fn node_count(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|n| (2..=wiglaf_cluster::shape::NODES_MAX).contains(n));
    count.ok_or_else(|| format!("give a number from 2 to {}", wiglaf_cluster::shape::NODES_MAX))
}

fn rank_count(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|n| (2..=64).contains(n));
    count.ok_or_else(|| "give a number from 2 to 64".to_owned())
}

/// Reads `8`, `64K`, `1M`; units are powers of 1024.
fn size(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        _ => None,
    };
    let len = digits.parse::<u64>().ok().zip(shift).and_then(|(n, s)| n.checked_mul(1 << s));
    // The measuring program's own limit.
    len.filter(|len| *len <= 1 << 30)
        .ok_or_else(|| "give bytes such as 8, 64K or 1M, at most 1024M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, len) in
            [("0", 0), ("8", 8), ("64K", 65_536), ("1MiB", 1 << 20), ("1024M", 1 << 30)]
        {
            assert_eq!(size(text), Ok(len), "{text}");
        }
        for text in ["", "K", "-1", "1.5K", "8 apples", "1025M", "99999999999999999999", "ü"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
