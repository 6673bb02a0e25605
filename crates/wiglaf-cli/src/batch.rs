//! `wiglaf batch`.

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use wiglaf_base::{Error, Result};
use wiglaf_batch::emulated::{self, Emulated};
use wiglaf_batch::look::{JobState, NodeState};

use crate::args::Global;
use crate::output;
use crate::which::Meant;

/// A node is not well, as `wiglaf status` has it.
const STATUS_NOT_WELL: u8 = 3;

const HELP: &str = "\
Examples:
  wiglaf up --nodes 4 --batch                 emulated nodes with Slurm on them
  wiglaf batch status                         nodes and jobs in plain words
  wiglaf exec -w node1 -- sbatch -N 2 job.sh  submit a job
  wiglaf exec -w node1 -- scancel 1           end it

In a job, `wiglaf run -- ./prog` takes the job's nodes and slots. See
docs/batch.md.";

/// Batch jobs, run by Slurm on emulated nodes
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: BatchCommand,
}

#[derive(Debug, Subcommand)]
enum BatchCommand {
    Status(StatusArgs),
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

#[derive(Debug, Serialize)]
struct Status {
    cluster: String,
    head: String,
    well: bool,
    nodes: Vec<NodeState>,
    jobs: Vec<JobState>,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let BatchCommand::Status(args) = &args.command;
    let state = match global.meant()? {
        Meant::Emulated(state) => state,
        Meant::Hosts(hosts) => {
            return Err(Error::new(format!(
                "{} describes real hosts, on which Wiglaf does not set Slurm up yet; use sinfo and squeue \
                 of the Slurm that you have, or name an emulated cluster with --name",
                hosts.file.display()
            )));
        }
    };
    let record = state.running()?;
    if !emulated::is_set_up(&state) {
        return Err(Error::new(format!(
            "Slurm is not set up on the cluster {}; run `{} --batch`",
            record.shape.name,
            state.command("up")
        )));
    }
    let slurm = Emulated::new(&state, &record, None)?;
    let nodes = slurm.node_states()?;
    let status = Status {
        cluster: record.shape.name.clone(),
        head: slurm.head()?.to_owned(),
        well: nodes.iter().all(|node| node.says.is_none()),
        jobs: slurm.job_states()?,
        nodes,
    };
    if args.json {
        output::print_json(&status)?;
    } else {
        output::print(&show(&status))?;
    }
    Ok(ExitCode::from(if status.well { 0 } else { STATUS_NOT_WELL }))
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
