//! What the ranks of a job leave on their nodes, brought together after its end.

use std::ffi::OsString;
use std::path::Path;

use wiglaf_base::error::Result;
use wiglaf_base::paths::EXE;
use wiglaf_base::records::{self, RECORDS_VAR};
use wiglaf_node::client::NodeCommand;

use crate::cluster::{self, Cluster, Member};

/// The records of one job.
#[derive(Debug)]
pub struct Records {
    begin: String,
}

impl Records {
    /// For a job that is to be started.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn new() -> Result<Self> {
        Ok(Self { begin: records::begin()? })
    }

    /// What ranks must be told.
    #[must_use]
    pub fn variable(&self) -> (String, String) {
        (RECORDS_VAR.to_owned(), self.begin.clone())
    }

    /// What runs as the parent of each rank and leaves its usage: `exe` is the `wiglaf` that was called.
    #[must_use]
    pub fn usage_wrapper(cluster: &Cluster, exe: &Path) -> Vec<OsString> {
        let exe = match cluster {
            Cluster::Emulated { .. } => EXE.into(),
            Cluster::Hosts(_) => cluster.program(exe).into(),
        };
        vec![exe, "rank-usage".into(), "--".into()]
    }

    /// Takes all records from the nodes. What a node does not answer is missing.
    #[must_use]
    pub fn fetch(&self, members: &[Member]) -> String {
        let script = records::fetching(&self.begin);
        let said = cluster::ask_all(members, |member| {
            member.node.output(&NodeCommand::new(["sh", "-c", &script]).cwd("/"), &[])
        });
        said.into_iter()
            .flatten()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }
}
