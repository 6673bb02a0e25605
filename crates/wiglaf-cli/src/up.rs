//! `wiglaf up`.

use std::path::PathBuf;
use std::process::ExitCode;

use wiglaf_base::{Error, Result};
use wiglaf_batch::emulated::{self, Emulated};
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::shape::{Draft, Nodes, Wire};
use wiglaf_emulation::up::{self, Up};

use crate::choices::any;
use crate::options::Global;
use crate::output;

/// What the provider promises to send in one frame, and its headers (docs/cluster-file.md).
const MTU_FOR_MPI: u32 = 1436;

const HELP: &str = "\
Examples:
  wiglaf up                            two nodes on an unlimited wire
  wiglaf up --nodes 4 --rate 1gbit     four nodes on a gigabit switch
  wiglaf up --nodes 'pc[01-03]' --mtu 9000
  wiglaf up --wire direct              two nodes on one cable, no switch
  wiglaf up --file wiglaf.toml         what a cluster file says
  wiglaf up --nodes 4 --batch          with Slurm, for batch jobs

A cluster file:
  name = \"lab\"
  nodes = \"node[1-4]\"      # or a number
  rate = \"1gbit\"
  mtu = 1500
  [node.node4]             # what is different on one node
  rate = \"100mbit\"
  core = 1

Each node has its own network, hostname, processes, shared memory and root file
system (what it writes to /var/tmp, no other node sees); your home, the folder
you work in and data disks are shared, as on a cluster. There is no route to the
network of this machine. The switch is a namespace, too: to look at it, use
`wiglaf exec -w switch -- tc -s qdisc`.";

/// Bring an emulated cluster up
///
/// Does nothing when a cluster of this shape is up already. Nodes of it that have died are started
/// anew; the others keep their jobs and disks. Needs root.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How many nodes, or their names [default: 2]
    #[arg(long, short = 'N', value_name = "N|HOSTLIST", value_parser = parse_nodes)]
    nodes: Option<Nodes>,

    /// Rate of each port of the switch, such as 1gbit [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// MTU of every interface [default: 1500]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,

    /// What joins the nodes [default: bridge]
    #[arg(long, value_parser = any::<Wire>())]
    wire: Option<Wire>,

    /// Let every node use all cores (normally node i keeps to one core)
    #[arg(long)]
    no_pin: bool,

    /// Set Slurm up on the nodes, as the section [batch] of the file says
    #[arg(long)]
    batch: bool,
}

/// Names of nodes are told of before what a host list may hold: they are host names of this machine's.
fn parse_nodes(text: &str) -> Result<Nodes> {
    let may_stand =
        |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "-_.,[]".contains(c);
    match text.chars().all(may_stand) {
        true => Nodes::parse(text),
        false => Err(Error::new(format!(
            "`{text}` names no nodes; their names are of letters, digits and inner hyphens, as in \
             node[1-4] or a,b"
        ))),
    }
}

fn parse_rate(text: &str) -> Result<Rate> {
    Rate::parse(text)
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let file = global.file.as_deref().map(Draft::read).transpose()?.unwrap_or_default();
    let line = Draft {
        name: global.name.clone(),
        nodes: args.nodes.clone(),
        mtu: args.mtu,
        rate: args.rate,
        wire: args.wire,
        pin: args.no_pin.then_some(false),
        ..Draft::default()
    };
    let draft = line.or(file);
    let state = global.state_dir_or(draft.name.as_deref());
    let section = draft.batch.clone();
    if args.batch {
        // Before a cluster is up that is not what was asked for.
        emulated::check_installed()?;
    }
    let up = up::up(&state, draft, &this_exe()?)?;
    let how = match &up {
        Up::Already(_) => "is up already".to_owned(),
        Up::New(_) => "is up".to_owned(),
        Up::Renewed(_) => "is up, after the remains of a killed one were removed".to_owned(),
        Up::Mended(_, dead) => format!("is up; {dead}, which had died, was started anew"),
    };
    let shape = &up.record().shape;
    output::print(&format!("cluster {} {how}: {}\n", shape.name, shape.summary()))?;
    if shape.mtu < MTU_FOR_MPI {
        eprintln!(
            "wiglaf: note: MPI over Wiglaf needs an MTU of {MTU_FOR_MPI} at least; with {} MPI \
             programs run over TCP only",
            shape.mtu
        );
    }
    // A node that was started anew lacks its daemons.
    if args.batch || emulated::is_set_up(&state) {
        let slurm = Emulated::new(&state, up.record(), section.as_ref())?;
        slurm.bring_up(&this_exe()?)?;
        let head = slurm.head()?;
        output::print(&format!(
            "Slurm is up, slurmctld on {head}: `{} -w {head} -- sbatch JOB.sh` submits a job\n",
            state.command("exec")
        ))?;
        let missing = emulated::missing_for_accounting();
        let is_wanted = section.is_none_or(|batch| batch.has_accounting());
        if !slurm.has_accounting() && is_wanted && !missing.is_empty() {
            eprintln!(
                "wiglaf: note: jobs are not noted for sacct: slurmdbd is not installed whole; run `apt-get \
                 install --no-install-recommends {}`, then `{}` and `{} --batch`",
                missing.join(" "),
                state.command("down"),
                state.command("up"),
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The running `wiglaf`.
pub(crate) fn this_exe() -> Result<PathBuf> {
    std::env::current_exe()
        .map_err(|error| Error::new(format!("cannot find this program: {error}")))
}
