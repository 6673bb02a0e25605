//! What the comparison needs of two nodes: commands run there, and services
//! that go on while others are measured.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{BenchError, Result};
use crate::launch::{capture, drain, end, last_words};

/// Where the program runs that is measured.
pub(super) const CLIENT: usize = 0;
/// Where the files lie.
pub(super) const SERVER: usize = 1;

/// Wiglaf's library, for programs in C.
#[derive(Debug, Clone)]
pub struct Library {
    /// The text of `wiglaf_files.h`.
    pub header: &'static str,
    /// The folder of `libwiglaf_files.so`, which all nodes see.
    pub folder: PathBuf,
}

/// Nodes with a folder `/scratch` each. In the comparison of ways to files there
/// are two, of which the first reads the files of the second. A folder that the
/// commands start in is shared by all.
pub trait Nodes {
    /// Runs a command on the node with this place, from 0. SIGTERM to it ends
    /// the command there.
    fn command(&self, node: usize, argv: &[OsString], folder: &Path) -> Command;

    /// The node's name.
    fn name(&self, node: usize) -> &str;

    /// The node's address on the wire.
    fn address(&self, node: usize) -> Ipv4Addr;

    /// Wiglaf's library, or why there is none.
    ///
    /// # Errors
    /// One sentence.
    fn library(&self) -> std::result::Result<Library, String>;

    /// What a reader of the result must know about the nodes.
    fn facts(&self) -> BTreeMap<String, String>;

    /// Whether the user wants no more.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Nodes, and the folder of measuring programs that they share.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) nodes: &'a dyn Nodes,
    pub(crate) shared: &'a Path,
}

impl Place<'_> {
    fn command(&self, node: usize, argv: &[&str]) -> Command {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        self.nodes.command(node, &argv, self.shared)
    }

    /// Runs a command to its end; answers what it printed, errors included.
    pub(crate) fn run(
        &self,
        node: usize,
        what: &str,
        argv: &[&str],
        time_max: Duration,
    ) -> Result<(String, String)> {
        self.run_unless(node, what, argv, time_max, &|| self.nodes.is_interrupted())
    }

    fn run_unless(
        &self,
        node: usize,
        what: &str,
        argv: &[&str],
        time_max: Duration,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(String, String)> {
        let failed = |detail| BenchError::Run { what: what.to_owned(), detail };
        let command = self.command(node, argv);
        let output =
            capture(command, time_max, is_interrupted).map_err(|e| failed(e.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("{} ({})", last_words(&output), output.status)));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr)))
    }

    /// A shell script, with arguments `$1` and so on.
    pub(crate) fn script(&self, node: usize, script: &str, arguments: &[&str]) -> Result<String> {
        let argv = [&["/bin/sh", "-ec", script, "sh"], arguments].concat();
        Ok(self.run(node, "the preparation", &argv, SCRIPT_TIME_MAX)?.0)
    }

    /// Removes a folder, also after an interrupt.
    pub(crate) fn remove(&self, node: usize, folder: &str) -> Result<()> {
        let argv = ["rm", "-rf", "--one-file-system", folder];
        self.run_unless(node, "cleaning up", &argv, SCRIPT_TIME_MAX, &|| false).map(drop)
    }

    /// Starts what goes on until it is dropped.
    pub(crate) fn start(&self, node: usize, argv: &[&str]) -> io::Result<Service> {
        let mut command = self.command(node, argv);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let said = [drain(child.stdout.take()), drain(child.stderr.take())];
        Ok(Service { child, said: Some(said) })
    }
}

const SCRIPT_TIME_MAX: Duration = Duration::from_secs(60);

/// A command that goes on. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    said: Option<[JoinHandle<Vec<u8>>; 2]>,
}

impl Service {
    /// Ends it; answers the last line that it said.
    pub(crate) fn last_line(mut self) -> String {
        let _ = end(&mut self.child);
        let said = self.said.take().into_iter().flatten();
        let said: Vec<u8> = said.flat_map(|one| one.join().unwrap_or_default()).collect();
        let said = String::from_utf8_lossy(&said).into_owned();
        let line = said.lines().rev().find(|line| line.chars().any(char::is_alphanumeric));
        line.unwrap_or("it said nothing").trim().to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Who has ended already is no news.
        let _ = end(&mut self.child);
    }
}
