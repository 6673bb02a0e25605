//! `wiglaf reset`: the broom that should never find anything.

use std::process::ExitCode;

use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::cluster::ask_all;
use wiglaf_node::mounts;
use wiglaf_node::proto::Remains;

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;
use crate::which::Meant;

const HELP: &str = "\
Examples:
  wiglaf reset                 on all nodes
  wiglaf reset -w node2        on one node
  wiglaf reset --json          for programs

It is never needed after a job of `wiglaf run`, however that ended. It is for
what escaped from its job, and for programs of an mpirun of your own. Mounts of
`wiglaf mount` go whose server has died: root's on the nodes and here, and your
own here.

On real hosts, only what bears the mark of a job of yours that nobody watches
over is ended, and nothing else.

On emulated nodes, left is a process that no `wiglaf run`, `wiglaf exec` or such
waits for. What an mpirun of your own runs on other nodes than its own looks the
same and is ended, too. Files of /dev/shm go where no process uses them and no
job runs. Root ends what is anybody's, others end their own.";

/// End and remove what is left of jobs on the nodes
///
/// Says what it found. Jobs that run are left alone.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which nodes [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    node: String,
    up: bool,
    /// Why it could not be done on a node that is not simply down.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    remains: Remains,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let meant = global.meant()?;
    let members = match meant.members(args.nodes.as_ref()) {
        Ok(members) => members,
        Err(error) => {
            // What is left here can be removed whether a cluster is up or not.
            let _ = mounts::remove_dead();
            return Err(error);
        }
    };
    let start = match &meant {
        Meant::Emulated(state) => state.command("up"),
        Meant::Hosts(_) => "wiglaf check".to_owned(),
    };
    let found = ask_all(&members, |member| member.node.reset());
    let reports: Vec<Report> = members
        .iter()
        .zip(found)
        .map(|(member, found)| {
            let up = !found.as_ref().is_err_and(Error::is_not_up);
            let error = found.as_ref().err().filter(|_| up).map(ToString::to_string);
            let remains = found.unwrap_or_default();
            Report { node: member.name().to_owned(), up, error, remains }
        })
        .collect();
    let here = mounts::remove_dead();
    if args.json {
        output::print_json(&reports)?;
    } else {
        let here = here
            .iter()
            .map(|dir| format!("here: unmounted {}\n", output::visible(&dir.to_string_lossy())));
        let shown = reports.iter().map(|report| show(report, &start));
        output::print(&shown.chain(here).collect::<String>())?;
    }
    let failed = reports.iter().filter_map(|report| report.error.as_ref());
    let count = failed.inspect(|error| eprintln!("wiglaf: {error}")).count();
    Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &Report, start: &str) -> String {
    let Report { node, up, error, remains } = report;
    if error.is_some() {
        return String::new();
    }
    if !up {
        return format!("{node}: is not up, so nothing runs on it; `{start}` starts it\n");
    }
    // Names are users', and root reads them.
    let ended = remains
        .processes
        .iter()
        .map(|p| format!("{node}: ended process {}: {}\n", p.pid, output::visible(&p.command)));
    let removed = remains
        .shared_memory
        .iter()
        .map(|file| format!("{node}: removed /dev/shm/{}\n", output::visible(file)));
    let unmounted = remains
        .mounts
        .iter()
        .map(|dir| format!("{node}: unmounted {}\n", output::visible(&dir.display().to_string())));
    let text: String = ended.chain(removed).chain(unmounted).collect();
    if text.is_empty() { format!("{node}: nothing was left\n") } else { text }
}

#[cfg(test)]
mod tests {
    use wiglaf_node::proto::RemainingProcess;

    use super::*;

    #[test]
    fn what_users_named_moves_no_cursor() {
        let evil = "x\x1b[2J\ry".to_owned();
        let remains = Remains {
            processes: vec![RemainingProcess { pid: 7, command: evil.clone() }],
            shared_memory: vec![evil.clone()],
            mounts: vec![evil.into()],
        };
        let report = Report { node: "node1".to_owned(), up: true, error: None, remains };
        let text = show(&report, "wiglaf up");
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| !line.contains(char::is_control)), "{text:?}");
    }
}
