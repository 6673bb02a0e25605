//! `wiglaf cp`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, open};
use serde::Serialize;
use wiglaf_base::paths::NODE_VAR;
use wiglaf_base::{Error, Result, signals};
use wiglaf_cluster::{StateDir, launch, state as clusters};
use wiglaf_files::copy::{Place, Stage, copy};
use wiglaf_files::{Files, Node as FileNode, Reason};
use wiglaf_node::{NodeCommand, Streams};

use crate::options::Global;
use crate::output;
use crate::which::{self, Meant};

const HELP: &str = "\
Examples:
  wiglaf cp node1:/scratch/a node2:/scratch/b     from node to node
  wiglaf cp node2:/scratch/result .               to where you are
  wiglaf cp input node2:/scratch                  into a folder of a node
  wiglaf cp --json node1:/scratch/a node2:/scratch/b

A path without a node is one of this machine's, or, on a node, of that node's.
A file whose name has a colon is ./NA:ME.
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

    /// Where this process finds the path that is no node's
    #[arg(long, hide = true, value_name = "PATH")]
    local: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Report {
    bytes: u64,
    resumed_bytes: u64,
    seconds: f64,
    crc32c: String,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let nodes = [split(&args.from).0, split(&args.to).0];
    if std::env::var_os(NODE_VAR).is_none()
        && let Some(node) = nodes.into_iter().flatten().next()
    {
        match global.meant()? {
            Meant::Emulated(state) => return on_node(args, &state, node),
            Meant::Hosts(hosts) => which::enter(&hosts)?,
        }
    }
    let files = Files::new();
    let local = args.local.as_deref();
    let (from, mut to) = (place(&files, &args.from, local)?, place(&files, &args.to, local)?);
    let own_name = Path::new(split(&args.from).1).file_name();
    if let (true, Some(name)) = (split(&args.from).0.is_none() && local.is_some(), own_name) {
        name_in_folder(&mut to, name);
    }
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

fn place(files: &Files, text: &str, local: Option<&Path>) -> Result<Place> {
    let (node, path) = split(text);
    let path = local.filter(|_| node.is_none()).map_or(OsStr::new(path), Path::as_os_str);
    let attached: FileNode = files.attach(node.unwrap_or("localhost")).map_err(|error| {
        let hint = match error.reason() {
            Reason::NoNode => colon_hint(text),
            _ => String::new(),
        };
        Error::new(format!("cannot reach {text}: {error}{hint}"))
    })?;
    Ok(Place { node: attached, path: path.into() })
}

/// What to type where a name with a colon was meant for a file, as it may be where there is no such node.
fn colon_hint(text: &str) -> String {
    format!("; for the file of that name here write ./{text}")
}

/// In a folder a link's copy has the link's name, not that of what it leads to.
fn name_in_folder(to: &mut Place, name: &OsStr) {
    let about = to.node.attributes(&to.path, true);
    if about.is_ok_and(|about| FileType::from_raw_mode(about.mode).is_dir()) {
        to.path = Path::new(&to.path).join(name).into();
    }
}

/// The folder of a path of this machine, and where a process finds the path that has the folder as
/// its standard input: under the same name a node may have a folder of its own.
fn local_folder(text: &str, is_source: bool) -> Result<(OwnedFd, PathBuf)> {
    let mut path = PathBuf::from(text);
    if is_source || path.is_dir() {
        // Links are this machine's, too.
        path = path.canonicalize().map_err(|error| Error::new(error.to_string()))?;
    }
    let is_folder = path.is_dir() || text.ends_with('/');
    let (folder, name) = match (is_folder, path.parent(), path.file_name()) {
        (false, Some(parent), Some(name)) if parent.as_os_str().is_empty() => {
            (Path::new("."), name)
        }
        (false, Some(parent), Some(name)) => (parent, name),
        _ => (path.as_path(), OsStr::new("")),
    };
    let opened = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::new(format!("{}: {error}", folder.display())))?;
    Ok((opened, Path::new("/proc/self/fd/0").join(name)))
}

/// This machine has no wire to the nodes: the same command, on one of them.
fn on_node(args: &Args, state: &StateDir, name: &str) -> Result<ExitCode> {
    let record = state.running()?;
    clusters::select(&record, &std::iter::once(name).collect()).map_err(|error| {
        let texts = [&args.from, &args.to];
        let text = texts.into_iter().find(|text| split(text).0 == Some(name));
        Error::new(format!("{error}{}", text.map_or_else(String::new, |text| colon_hint(text))))
    })?;
    let node = state.node(name);
    let mut streams = Streams::inherit()?;
    let mut argv: Vec<OsString> = ["wiglaf", "cp"].map(OsString::from).into();
    argv.extend(args.no_verify.then(|| "--no-verify".into()));
    argv.extend(args.json.then(|| "--json".into()));
    let locals = [(&args.from, true), (&args.to, false)];
    if let Some((text, is_source)) = locals.into_iter().find(|(text, _)| split(text).0.is_none()) {
        let (folder, path) = local_folder(text, is_source).map_err(|error| {
            Error::new(format!("cannot copy {} to {}: {error}", args.from, args.to))
        })?;
        streams.stdin = folder;
        argv.extend(["--local".into(), path.into()]);
    }
    argv.extend(["--", &args.from, &args.to].map(OsString::from));
    let held = signals::Held::new(&signals::ENDING);
    let mut command = NodeCommand::new(argv);
    let mut on_nodes = [&args.from, &args.to].into_iter().filter_map(|text| match split(text) {
        (Some(_), path) => Some(path),
        (None, _) => None,
    });
    if on_nodes.all(|path| path.starts_with('/')) {
        // In a folder that every node has.
        command = command.cwd("/");
    } else if let (Ok(folder), true) = (std::env::current_dir(), launch::may_share()) {
        node.share(std::slice::from_ref(&folder))?;
    }
    let running = node.spawn(&command, streams)?;
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
