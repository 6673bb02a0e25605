//! `wiglaf batch`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_batch::emulated::{self, Emulated};
use wiglaf_batch::look::{JobState, NodeState};
use wiglaf_batch::node::{self, When};
use wiglaf_batch::setup::{self, Outcome, Site};
use wiglaf_batch::sleep::Waking;
use wiglaf_batch::{owner, pbs};
use wiglaf_cluster::StateDir;
use wiglaf_cluster::hosts::Hosts;

use crate::join::{all_but_last, is_wanted, success_unless};
use crate::options::Global;
use crate::output;
use crate::which::Meant;

/// A node is not well, as `wiglaf status` has it.
const STATUS_NOT_WELL: u8 = 3;

const HELP: &str = "\
Examples:
  wiglaf batch setup --dry-run                say what would be changed on hosts
  wiglaf batch setup                          Slurm on all hosts that joined
  sbatch -N 2 job.sh                          submit a job, on any of them
  wiglaf batch status                         nodes and jobs in plain words
  wiglaf batch remove                         take all of it back

  wiglaf up --nodes 4 --batch                 emulated nodes with Slurm on them
  wiglaf exec -w node1 -- sbatch -N 2 job.sh  submit a job there

In a job, `wiglaf run -- ./prog` takes the job's nodes and slots. See
docs/batch.md.";

const SETUP_HELP: &str = "\
Examples:
  wiglaf batch setup --dry-run    say what would be changed, and end
  wiglaf batch setup              ask, and do it
  wiglaf batch setup --yes        ask nothing

It takes hosts that have joined with sudo, and Debian on them, of one release.
The section [batch] of the cluster file says which host decides, which nodes are
for short jobs, and whether there are qsub, qstat and qdel. Called again, it
changes what has changed since, and starts daemons that have ended. A host on
which something fails is left as it was.";

/// Batch jobs, run by Slurm on hosts or on emulated nodes
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BatchCommand,
}

#[derive(Debug, Subcommand)]
enum BatchCommand {
    Setup(SetupArgs),
    Status(StatusArgs),
    Remove(RemoveArgs),
}

/// Set Slurm up on all hosts of the cluster file
#[derive(Debug, clap::Args)]
#[command(after_help = SETUP_HELP)]
struct SetupArgs {
    /// Say what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Take back what `setup` has changed on the hosts; jobs end
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Say what would be taken back, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Remove the database in which all jobs are noted, too
    #[arg(long)]
    forget_accounting: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Show nodes and jobs as Slurm sees them, and what to type where it is not well
///
/// The exit status is 3 when a node takes no jobs.
#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What runs before and after each job of Slurm's on a host; called by its prolog and epilog
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {
    #[arg(value_enum)]
    when: WhenArg,

    /// What the node is to be like
    #[arg(long, value_name = "FILE", default_value = node::SETTINGS)]
    settings: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WhenArg {
    Prolog,
    Epilog,
    Look,
    TaskProlog,
}

/// Have batch jobs make way for the owner of this PC; started by `wiglaf batch setup`
#[derive(Debug, clap::Args)]
pub(crate) struct OwnerArgs {
    /// Have jobs go on and begin again, and end
    #[arg(long)]
    release: bool,
}

/// Wake nodes for batch jobs; called by Slurm on the head
#[derive(Debug, clap::Args)]
pub(crate) struct WakeArgs {
    /// As Slurm writes them
    nodes: String,
}

pub(crate) fn wake(args: &WakeArgs) -> Result<()> {
    let waking = Waking::read()?;
    for card in waking.cards(&args.nodes)? {
        wiglaf_power::wake(card, waking.network)?;
    }
    Ok(())
}

pub(crate) fn owner(args: &OwnerArgs) -> Result<()> {
    if args.release { owner::release() } else { owner::watch() }
}

pub(crate) fn host(args: &HostArgs) -> Result<()> {
    let when = match args.when {
        WhenArg::Prolog => When::Prolog,
        WhenArg::Epilog => When::Epilog,
        WhenArg::Look => When::Look,
        WhenArg::TaskProlog => return output::print(&pbs::task_prolog()),
    };
    let said = node::run(when, &args.settings)?;
    said.iter().for_each(|line| eprintln!("wiglaf: {}", output::visible(line)));
    Ok(())
}

/// What Slurm says of the nodes and of the jobs that this user may see.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    cluster: String,
    head: String,
    well: bool,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) jobs: Vec<JobState>,
    /// What is wrong with accounting.
    #[serde(skip_serializing_if = "Option::is_none")]
    accounting: Option<Trouble>,
}

#[derive(Debug, Serialize)]
struct Trouble {
    says: String,
    fix: String,
}

impl Trouble {
    fn new((says, fix): (String, String)) -> Self {
        Self { says, fix }
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.command {
        BatchCommand::Setup(args) => setup(args, &hosts(global, "setup")?),
        BatchCommand::Remove(args) => remove(args, &hosts(global, "remove")?),
        BatchCommand::Status(args) => {
            let status = status(&global.meant()?)?;
            if args.json {
                output::print_json(&status)?;
            } else {
                output::print(&show(&status))?;
            }
            Ok(ExitCode::from(if status.well { 0 } else { STATUS_NOT_WELL }))
        }
    }
}

/// The hosts that are meant.
fn hosts(global: &Global, command: &str) -> Result<Hosts> {
    match global.meant()? {
        Meant::Hosts(hosts) => Ok(hosts),
        Meant::Emulated(state) => Err(Error::new(format!(
            "`wiglaf batch {command}` is for real hosts, and there is no cluster file of any; write one with \
             `wiglaf init`, or try Slurm on emulated nodes with `{} --batch`",
            state.command("up")
        ))),
    }
}

fn setup(args: &SetupArgs, hosts: &Hosts) -> Result<ExitCode> {
    let site = setup::look(hosts).map_err(all_but_last)?;
    let plans = site.plan()?;
    site.notes().iter().for_each(|note| eprintln!("wiglaf: {note}"));
    let lines = plans
        .iter()
        .flat_map(|plan| plan.changes.iter().map(|change| format!("{}: {change}\n", plan.name)));
    output::print(&lines.collect::<String>())?;
    if plans.is_empty() {
        output::print("all of it is set up already; see `wiglaf batch status`\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run || !is_wanted(args.yes)? {
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = site.carry_out(&|line| eprintln!("wiglaf: {line}"))?;
    let (ready, errors) = sorted(outcomes, "it takes no jobs, and is as it was");
    if !ready.names().is_empty() {
        output::print(&format!(
            "{ready}: ready for jobs; `sbatch` on any of them, and see `wiglaf batch status`\n"
        ))?;
    }
    success_unless(errors)
}

fn remove(args: &RemoveArgs, hosts: &Hosts) -> Result<ExitCode> {
    let site = Site::new(hosts).map_err(all_but_last)?;
    let lines = site.removal(args.forget_accounting)?;
    output::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    if args.dry_run || !is_wanted(args.yes)? {
        return Ok(ExitCode::SUCCESS);
    }
    let outcomes = site.remove(args.forget_accounting, &|line| eprintln!("wiglaf: {line}"))?;
    let (left, errors) = sorted(outcomes, "what was set up there stays");
    if !left.names().is_empty() {
        output::print(&format!("{left}: no more batch jobs\n"))?;
    }
    success_unless(errors)
}

/// Hosts on which it went well, and a sentence for all else.
fn sorted(outcomes: Vec<Outcome>, then: &str) -> (HostList, Vec<Error>) {
    let (mut well, mut errors) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome.error {
            Some(why) => errors.push(Error::new(format!("{why}; {then}"))),
            None => well.push(outcome.name),
        }
        errors.extend(outcome.kept.into_iter().map(Error::new));
    }
    (well.into_iter().collect(), errors)
}

/// Asks Slurm.
pub(crate) fn status(meant: &Meant) -> Result<Status> {
    match meant {
        Meant::Emulated(state) => of_emulated(state),
        Meant::Hosts(hosts) => of_hosts(hosts),
    }
}

fn of_hosts(hosts: &Hosts) -> Result<Status> {
    let site = Site::new(hosts).map_err(all_but_last)?;
    if !site.is_set_up() {
        return Err(Error::new(format!(
            "Slurm is not set up on the hosts of {}; run `wiglaf batch setup`",
            hosts.file.display()
        )));
    }
    let nodes = site.node_states()?;
    let accounting = site.accounting().map(Trouble::new);
    Ok(Status {
        cluster: hosts.name.clone(),
        head: site.head_name().to_owned(),
        well: nodes.iter().all(|node| node.says.is_none()) && accounting.is_none(),
        jobs: site.job_states()?,
        accounting,
        nodes,
    })
}

fn of_emulated(state: &StateDir) -> Result<Status> {
    let record = state.running()?;
    if !emulated::is_set_up(state) {
        return Err(Error::new(format!(
            "Slurm is not set up on the cluster {}; run `{} --batch`",
            record.shape.name,
            state.command("up")
        )));
    }
    let slurm = Emulated::new(state, &record, None)?;
    let nodes = slurm.node_states()?;
    let accounting = slurm.accounting()?.map(Trouble::new);
    Ok(Status {
        cluster: record.shape.name.clone(),
        head: slurm.head()?.to_owned(),
        well: nodes.iter().all(|node| node.says.is_none()) && accounting.is_none(),
        jobs: slurm.job_states()?,
        accounting,
        nodes,
    })
}

fn show(status: &Status) -> String {
    let mut text = format!("cluster {}: slurmctld on {}\n", status.cluster, status.head);
    let heading = ["node", "state", "cpus", "memory"].map(str::to_owned).to_vec();
    let rows = status.nodes.iter().map(|node| {
        vec![
            node.name.clone(),
            if node.answers { node.state.clone() } else { format!("{} (silent)", node.state) },
            node.cpus.clone(),
            format!("{} MiB", node.memory_mib),
        ]
    });
    text += &output::table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>());
    for node in &status.nodes {
        if let (Some(says), Some(fix)) = (&node.says, &node.fix) {
            text += &format!("{}\n  type: {fix}\n", output::visible(says));
        }
        if let Some(owner) = &node.owner {
            text += &format!("{}\n", output::visible(owner));
        }
    }
    if let Some(Trouble { says, fix }) = &status.accounting {
        text += &format!("{says}\n  type: {fix}\n");
    }
    if status.jobs.is_empty() {
        return text + "no jobs\n";
    }
    let heading = ["job", "name", "user", "partition", "state", "time", "nodes"];
    let rows = status.jobs.iter().map(|job| {
        vec![
            job.id.clone(),
            output::visible(&job.name),
            job.user.clone(),
            job.partition.clone(),
            job.state.clone(),
            job.time.clone(),
            if job.on.is_empty() { job.nodes.clone() } else { job.on.clone() },
        ]
    });
    let rows = std::iter::once(heading.map(str::to_owned).to_vec()).chain(rows);
    text += &output::table(&rows.collect::<Vec<_>>());
    for job in &status.jobs {
        if let Some(says) = &job.says {
            text += &format!("job {} {says}\n", job.id);
        }
    }
    text
}
