//! `wiglaf exec`.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use wiglaf_base::{End, Error, HostList, Result, signals};
use wiglaf_cluster::{launch, shape, state as clusters};
use wiglaf_node::client::working_folder;
use wiglaf_node::fanout::{self, Keep, NodeOutput, Stream};
use wiglaf_node::{Node, NodeCommand, Streams, terminal};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::output;
use crate::which::Meant;

const HELP: &str = "\
Examples:
  wiglaf exec -w 'node[1-2]' -- hostname  equal outputs are shown once
  wiglaf exec -- uptime                   on all nodes
  wiglaf exec -L -- ping -c 3 node1       line by line, with the node in front
  wiglaf exec -w node1 -- bash            on one node: like ssh, with a terminal
  wiglaf exec -w switch -- tc -s qdisc    inside the emulated switch

On real hosts a command starts in the folder of that name, where the host has
one, or else in your home, and with the environment of a login there.

The exit status is the largest of all nodes.";

/// Run a command on nodes, side by side
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which nodes [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Print each line as it comes, with the node's name in front
    #[arg(short = 'L', long, conflicts_with = "json")]
    label: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    argv: Vec<OsString>,
}

#[derive(Debug, Serialize)]
struct JsonOutput {
    node: String,
    status: Option<u8>,
    error: Option<String>,
    stdout: String,
    stderr: String,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    // Said once, and not by each node.
    working_folder()?;
    let nodes = nodes(&global.meant()?, args.nodes.as_ref())?;
    share_working_folder(&nodes);
    let command = NodeCommand::new(args.argv.iter().cloned());
    if let ([node], true, false, false) =
        (nodes.as_slice(), args.nodes.is_some(), args.label, args.json)
    {
        if terminal::is_interactive() {
            if let Some(target) = node.target().filter(|target| !target.is_here) {
                return Ok(ExitCode::from(wiglaf_node::ssh::on_terminal(target, &args.argv)?));
            }
            let end = terminal::run(node, command)?;
            if end == End::Signal(signals::INTERRUPT) {
                signals::die_of(signals::INTERRUPT);
            }
            return Ok(ExitCode::from(end.code()));
        }
        let held = signals::Held::new(&signals::ENDING);
        let running = node.spawn(&command, Streams::inherit()?)?;
        let signalled = running.try_clone()?;
        let first = signals::First::default();
        let asked = first.clone();
        held.pass_on(move |number| {
            let _ = asked.note(number);
            signalled.signal(number);
        })?;
        let end = first.die_of_interrupt(running.wait())?;
        return Ok(ExitCode::from(end.code()));
    }
    let keep = if args.label { Keep::Nothing } else { Keep::All };
    let outputs = fanout::run(&nodes, &command, keep, &|node, stream, line| match stream {
        Stream::Stdout if args.label => print_line(node, line),
        // A reader of errors that has gone must not stop the others' lines.
        Stream::Stderr if !args.json => {
            let _ = std::io::stderr().lock().write_all(&labelled(node, line));
        }
        _ => {}
    });
    match (args.json, args.label) {
        (true, _) => output::print_json(&outputs.iter().map(json).collect::<Vec<_>>())?,
        (false, true) => {}
        (false, false) => show_groups(&outputs)?,
    }
    Ok(ExitCode::from(worst(&outputs, !args.json)))
}

/// The nodes asked for, the switch among them.
fn nodes(meant: &Meant, names: Option<&HostList>) -> Result<Vec<Node>> {
    let Meant::Emulated(state) = meant else { return meant.nodes(names) };
    let record = state.running()?;
    let names = names.cloned().unwrap_or_default();
    if names.names() == [shape::SWITCH] && record.switch.is_some() {
        return Ok(vec![state.node(shape::SWITCH)]);
    }
    if names.names().iter().any(|name| name == shape::SWITCH) && record.switch.is_some() {
        return Err(Error::new(
            "the switch is none of the nodes; name it alone, as in `wiglaf exec -w switch -- ip link`",
        ));
    }
    let shapes = clusters::select(&record, &names)?;
    Ok(shapes.iter().map(|node| state.node(&node.name)).collect())
}

/// Lets the nodes see where the user is, if that is possible. A node that cannot says why when the
/// command is to start there, and the others start it.
fn share_working_folder(nodes: &[Node]) {
    if let (Ok(folder), true) = (std::env::current_dir(), launch::may_share()) {
        for node in nodes.iter().filter(|node| !node.is_host()) {
            let _ = node.share(std::slice::from_ref(&folder));
        }
    }
}

/// Prints a line, or ends this process if nobody reads on or the line is lost. Its commands end with
/// its connections to the nodes, those too that say nothing.
fn print_line(node: &str, line: &[u8]) {
    // Held to the end: other nodes' lines fail as this one does, and it is said once.
    let _out = std::io::stdout().lock();
    match output::print_while_read(&labelled(node, line)) {
        Ok(true) => {}
        Ok(false) => std::process::exit(0),
        Err(error) => {
            eprintln!("wiglaf: {error}");
            std::process::exit(error.exit_status().into());
        }
    }
}

fn labelled(node: &str, line: &[u8]) -> Vec<u8> {
    let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
    [node.as_bytes(), b": ", line, end].concat()
}

fn show_groups(outputs: &[NodeOutput]) -> Result<()> {
    const RULE: &str = "---------------";
    for group in fanout::group(outputs) {
        output::print(&format!("{RULE}\n{}\n{RULE}\n", group.nodes))?;
        output::print_bytes(&group.stdout)?;
        if !group.stdout.ends_with(b"\n") {
            output::print("\n")?;
        }
    }
    Ok(())
}

fn json(output: &NodeOutput) -> JsonOutput {
    JsonOutput {
        node: output.node.clone(),
        status: output.end.as_ref().ok().map(|end| end.code()),
        error: output.end.as_ref().err().map(ToString::to_string),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The largest status; says which nodes it comes from.
fn worst(outputs: &[NodeOutput], explain: bool) -> u8 {
    let mut worst = 0;
    for output in outputs {
        let (status, why) = match &output.end {
            Ok(End::Status(0)) => continue,
            Ok(End::Status(status)) => {
                (*status as u8, format!("{}: exit status {status}", output.node))
            }
            Ok(end @ End::Signal(signal)) => (end.code(), by_signal(&output.node, *signal)),
            Err(error) => (error.exit_status(), error.to_string()),
        };
        if explain {
            eprintln!("wiglaf: {why}");
        }
        worst = worst.max(status);
    }
    worst
}

/// What is said of who can no longer say it.
pub(crate) fn by_signal(who: &str, signal: i32) -> String {
    format!("{who}: ended by signal {signal}")
}
