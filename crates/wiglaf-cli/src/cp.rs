//! `wiglaf cp`.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use wiglaf_cluster::proto::NODE_VAR;
use wiglaf_cluster::{Error, Node, NodeCommand, Result, StateDir, Streams, launch, signals};
use wiglaf_files::copy::{Place, Stage, copy};
use wiglaf_files::{Files, Node as FileNode};

use crate::output;

const HELP: &str = "\
Examples:
  wiglaf cp node1:/scratch/a node2:/scratch/b     from node to node
  wiglaf cp node2:/scratch/result .               to where you are
  wiglaf cp input node2:/scratch                  into a folder of a node
  wiglaf cp --json node1:/scratch/a node2:/scratch/b

A path without a node is one of this machine's, or, on a node, of that node's.
The copy runs on the first node that is named, where it may do what you may do
there. Another node gives what the cluster file exports: /scratch, and what
`export` adds.

The copy is called NAME.wiglaf-part until it is whole, on disk, and read back
with the right checksum (CRC-32C). An interrupted copy goes on where it was when
it is started again, after what is there has been compared.";

/// Copy a file between nodes
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// What to copy
    #[arg(value_name = "[NODE:]PATH")]
    from: String,

    /// Where to
    #[arg(value_name = "[NODE:]PATH")]
    to: String,

    /// Do not read the copy back
    #[arg(long)]
    no_verify: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    bytes: u64,
    resumed_bytes: u64,
    seconds: f64,
    crc32c: String,
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    let nodes = [split(&args.from).0, split(&args.to).0];
    if std::env::var_os(NODE_VAR).is_none()
        && let Some(node) = nodes.into_iter().flatten().next()
    {
        return on_node(args, state, node);
    }
    let files = Files::new();
    let (from, to) = (place(&files, &args.from)?, place(&files, &args.to)?);
    let began = Instant::now();
    let mut bar = Bar::new();
    let outcome =
        copy(&from, &to, !args.no_verify, &mut |stage, done, of| bar.show(stage, done, of));
    bar.clear();
    let copied = outcome.map_err(|error| {
        Error::new(format!("cannot copy {} to {}: {error}", args.from, args.to))
    })?;
    if args.json {
        output::print_json(&Report {
            bytes: copied.len,
            resumed_bytes: copied.resumed,
            seconds: began.elapsed().as_secs_f64(),
            crc32c: format!("{:08x}", copied.checksum),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A node's name and a path there; or a path alone.
fn split(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        Some((node, path)) if !node.is_empty() && !node.contains('/') => (Some(node), path),
        _ => (None, text),
    }
}

fn place(files: &Files, text: &str) -> Result<Place> {
    let (node, path) = split(text);
    let node: FileNode = files
        .attach(node.unwrap_or("localhost"))
        .map_err(|error| Error::new(format!("cannot reach {text}: {error}")))?;
    Ok(Place { node, path: path.into() })
}

/// This machine has no wire to the nodes: the same command, on one of them.
fn on_node(args: &Args, state: &StateDir, name: &str) -> Result<ExitCode> {
    let record = state
        .record()?
        .ok_or_else(|| Error::new("no cluster is up; start one with `wiglaf up`"))?;
    launch::select(&record, &std::iter::once(name).collect())?;
    let node = Node::new(state, name);
    if let (Ok(folder), true) = (std::env::current_dir(), launch::may_share()) {
        node.share(std::slice::from_ref(&folder))?;
    }
    let mut argv = vec!["wiglaf", "cp"];
    argv.extend(args.no_verify.then_some("--no-verify"));
    argv.extend(args.json.then_some("--json"));
    argv.extend(["--", &args.from, &args.to]);
    let held = signals::Held::new(&signals::ENDING);
    let running = node.spawn(&NodeCommand::new(argv), Streams::inherit()?)?;
    let signalled = running.try_clone()?;
    held.pass_on(move |number| signalled.signal(number))?;
    Ok(ExitCode::from(running.wait()?.code()))
}

/// A line that is written over and over, where somebody looks at it.
struct Bar {
    shown: Option<Instant>,
    began: Instant,
    is_seen: bool,
}

impl Bar {
    const EVERY: Duration = Duration::from_millis(200);

    fn new() -> Self {
        Self { shown: None, began: Instant::now(), is_seen: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, stage: Stage, done: u64, of: u64) {
        let now = Instant::now();
        let is_due = self.shown.is_none_or(|shown| now.duration_since(shown) >= Self::EVERY);
        if !self.is_seen || !is_due || now.duration_since(self.began) < Self::EVERY {
            return;
        }
        self.shown = Some(now);
        let what = match stage {
            Stage::Comparing => "comparing",
            Stage::Copying => "copying",
            Stage::Verifying => "verifying",
        };
        let percent = (done * 100).checked_div(of).unwrap_or(100);
        eprint!("\r{what:9} {percent:3} %  {:.1} of {:.1} MB ", done as f64 / 1e6, of as f64 / 1e6);
    }

    fn clear(&self) {
        if self.shown.is_some() {
            eprint!("\r{:60}\r", "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_stands_before_a_colon() {
        for (text, expected) in [
            ("node1:/a", (Some("node1"), "/a")),
            ("node1:a:b", (Some("node1"), "a:b")),
            ("/a:b", (None, "/a:b")),
            ("./a:b", (None, "./a:b")),
            (":a", (None, ":a")),
            ("a", (None, "a")),
        ] {
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
