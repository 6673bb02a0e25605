//! One command on several nodes, side by side, its output kept apart.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::signals;

use crate::client::{Node, NodeCommand, Streams, null};
use crate::proto::End;

/// As much output of a node is kept, and a line that is not may be as long.
const KEPT_LEN_MAX: u64 = 64 << 20;

/// Which output a line was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes a node's name, the stream, and a line with its end.
pub type OnLine<'a> = dyn Fn(&str, Stream, &[u8]) + Sync + 'a;

/// What a command did on one node.
#[derive(Debug, Clone)]
pub struct NodeOutput {
    /// Which node.
    pub node: String,
    /// How it ended, or why it did not start.
    pub end: Result<End>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// Nodes on which the same came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The nodes.
    pub nodes: HostList,
    /// The standard output of each.
    pub stdout: Vec<u8>,
}

/// What becomes of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It comes back when the command has ended, which is ended when that is more than 64 MiB.
    All,
    /// Nothing but its lines as they come; there may be no end of them.
    Nothing,
}

/// Runs a command on all nodes at once. Every line goes to `on_line` as it
/// comes; the output that is to be kept comes back.
#[must_use]
pub fn run(
    nodes: &[Node],
    command: &NodeCommand,
    keep: Keep,
    on_line: &OnLine<'_>,
) -> Vec<NodeOutput> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            nodes.iter().map(|node| scope.spawn(|| run_on(node, command, keep, on_line))).collect();
        let outputs = threads.into_iter().zip(nodes).map(|(thread, node)| {
            thread.join().unwrap_or_else(|_| failed(node, Error::new("a thread panicked")))
        });
        outputs.collect()
    })
}

fn failed(node: &Node, error: Error) -> NodeOutput {
    let node = node.name().to_owned();
    NodeOutput { node, end: Err(error), stdout: Vec::new(), stderr: Vec::new() }
}

fn run_on(node: &Node, command: &NodeCommand, keep: Keep, on_line: &OnLine<'_>) -> NodeOutput {
    let started = (|| {
        let (stdout, stdout_end) = pipe()?;
        let (stderr, stderr_end) = pipe()?;
        let streams = Streams { stdin: null()?, stdout: stdout_end, stderr: stderr_end };
        Ok((node.spawn(command, streams)?, stdout, stderr))
    })();
    let (running, stdout, stderr) = match started {
        Ok(started) => started,
        Err(error) => return failed(node, error),
    };
    let name = node.name();
    let drain = |pipe, stream| {
        let drained = drain(pipe, keep, |line| on_line(name, stream, line));
        if !drained.1 {
            running.signal(signals::KILL);
        }
        drained
    };
    std::thread::scope(|scope| {
        let errors = scope.spawn(|| drain(stderr, Stream::Stderr));
        let (stdout, is_all) = drain(stdout, Stream::Stdout);
        let (stderr, are_all) = errors.join().unwrap_or((Vec::new(), true));
        let end = running.wait();
        let end = if is_all && are_all { end } else { Err(too_much(name)) };
        NodeOutput { node: name.to_owned(), end, stdout, stderr }
    })
}

fn too_much(node: &str) -> Error {
    Error::new(format!(
        "{node}: the command has printed more than {} MiB, which are kept to compare them, and was \
         ended; with -L each line is printed as it comes",
        KEPT_LEN_MAX >> 20
    ))
}

fn pipe() -> Result<(File, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).cannot(|| "make a pipe".to_owned())?;
    Ok((File::from(reader), writer))
}

/// Reads all lines. A pipe that fails ends like one that is closed. False when there is more than is kept.
fn drain(pipe: File, keep: Keep, on_line: impl Fn(&[u8])) -> (Vec<u8>, bool) {
    let mut reader = BufReader::new(pipe);
    let mut all = Vec::new();
    loop {
        if keep == Keep::Nothing {
            all.clear();
        }
        let start = all.len();
        let room = KEPT_LEN_MAX - start as u64;
        if room == 0 {
            return (all, false);
        }
        match reader.by_ref().take(room).read_until(b'\n', &mut all) {
            Ok(0) | Err(_) => return (all, true),
            Ok(_) => on_line(&all[start..]),
        }
    }
}

/// Joins the nodes whose output is the same, in order of the first of each.
#[must_use]
pub fn group(outputs: &[NodeOutput]) -> Vec<Group> {
    let mut groups: Vec<(Vec<&str>, &[u8])> = Vec::new();
    for output in outputs.iter().filter(|output| !output.stdout.is_empty()) {
        match groups.iter_mut().find(|(_, stdout)| *stdout == output.stdout) {
            Some((nodes, _)) => nodes.push(&output.node),
            None => groups.push((vec![&output.node], &output.stdout)),
        }
    }
    let finish = |(nodes, stdout): (Vec<&str>, &[u8])| Group {
        nodes: nodes.into_iter().collect(),
        stdout: stdout.to_vec(),
    };
    groups.into_iter().map(finish).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_not_kept_takes_no_memory() {
        let drained = |keep: Keep| {
            let (reader, writer) = pipe().unwrap();
            std::io::Write::write_all(&mut File::from(writer), b"one\ntwo\nrest").unwrap();
            let lines = std::cell::RefCell::new(Vec::new());
            let (kept, is_all) = drain(reader, keep, |line| lines.borrow_mut().push(line.to_vec()));
            assert!(is_all);
            (kept, lines.into_inner().concat())
        };
        let all = b"one\ntwo\nrest".to_vec();
        assert_eq!(drained(Keep::All), (all.clone(), all.clone()));
        assert_eq!(drained(Keep::Nothing), (Vec::new(), all));
    }

    #[test]
    fn output_without_end_is_not_kept_for_ever() {
        for (keep, line) in [(Keep::All, &b"y\n"[..]), (Keep::All, b"y"), (Keep::Nothing, b"y")] {
            let (reader, writer) = pipe().unwrap();
            let bytes = line.repeat(1 << 20);
            let writing = std::thread::spawn(move || {
                let mut writer = File::from(writer);
                (0..100).all(|_| std::io::Write::write_all(&mut writer, &bytes).is_ok())
            });
            let longest = std::cell::Cell::new(0);
            let (kept, is_all) =
                drain(reader, keep, |line| longest.set(longest.get().max(line.len())));
            assert!(kept.len() as u64 <= KEPT_LEN_MAX && longest.get() as u64 <= KEPT_LEN_MAX);
            assert_eq!(
                (is_all, writing.join().unwrap()),
                (keep == Keep::Nothing, keep == Keep::Nothing)
            );
        }
    }

    #[test]
    fn the_same_output_is_one_group() {
        let output = |node: &str, text: &str| NodeOutput {
            node: node.to_owned(),
            end: Ok(End::Status(0)),
            stdout: text.into(),
            stderr: Vec::new(),
        };
        let outputs = [output("n1", "a"), output("n2", "b"), output("n3", "a"), output("n4", "")];
        let groups: Vec<_> = group(&outputs).iter().map(|g| g.nodes.to_string()).collect();
        assert_eq!(groups, ["n[1,3]", "n2"]);
    }
}
