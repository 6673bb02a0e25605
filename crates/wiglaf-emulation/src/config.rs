//! What an init is told when it starts.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What `up` tells a new init on its standard input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NodeConfig {
    /// The state folder.
    pub(crate) state: PathBuf,
    /// Host name.
    pub(crate) node: String,
    /// Its address; the switch has none.
    pub(crate) address: Option<Ipv4Addr>,
    /// All nodes, for /etc/hosts.
    pub(crate) hosts: Vec<(Ipv4Addr, String)>,
    /// The core to keep to.
    pub(crate) core: Option<usize>,
    /// Folders that all nodes share.
    pub(crate) shared: Vec<PathBuf>,
    /// A folder of the node's own disk; the switch has none.
    pub(crate) scratch: Option<PathBuf>,
    /// Where the libfabric provider is.
    pub(crate) libdir: Option<PathBuf>,
}
