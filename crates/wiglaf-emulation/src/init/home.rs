//! What an emulated node does for its clients beyond running commands: it shares folders of the machine,
//! and the switch makes its ports faulty.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use wiglaf_base::error::{Context, Result};
use wiglaf_node::agent::Emulated;
use wiglaf_node::faults::{PortFaults, PortReport};
use wiglaf_node::mounts;

use super::faults::Ports;
use super::{helper, root};
use crate::config::NodeConfig;

/// What there is of a node besides its processes.
#[derive(Debug)]
pub(super) struct Home {
    /// Where the wire is at fault; the switch's to carry out.
    ports: Mutex<Ports>,
    /// Folders that all nodes see.
    shared: Mutex<Vec<PathBuf>>,
}

impl Home {
    /// Of a node on which all nodes see the `shared` folders already.
    pub(super) fn new(config: &NodeConfig, shared: Vec<PathBuf>) -> Self {
        Self { ports: Mutex::new(Ports::new(config)), shared: Mutex::new(shared) }
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Emulated for Home {
    fn helper(&self) -> i32 {
        helper::pid()
    }

    fn has_ended(&self, pid: i32) {
        helper::has_ended(pid);
    }

    fn share(&self, paths: &[PathBuf], trees: &[OwnedFd]) -> Result<()> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, tree) in paths.iter().zip(trees) {
            // What was there may have been removed and made again.
            if shared.contains(path) && !is_shown(path, tree) {
                unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
                    .cannot(|| format!("take the old {} away", path.display()))?;
                shared.retain(|s| s != path);
            }
            if path.is_absolute() && !shared.iter().any(|s| path.starts_with(s)) {
                root::attach_here(tree, path)?;
                mounts::detach_copies(path);
                shared.push(path.clone());
            }
        }
        Ok(())
    }

    fn set_faults(&self, ports: &[(usize, Option<PortFaults>)], hold: Duration) -> Result<()> {
        ports.iter().try_for_each(|(port, faults)| self.ports().set(*port, *faults, hold))
    }

    fn faults(&self, ports: &[usize]) -> Result<Vec<PortReport>> {
        self.ports().report(ports)
    }
}

/// Whether that tree is what is seen at `path`.
fn is_shown(path: &Path, tree: &OwnedFd) -> bool {
    let there = rustix::fs::stat(path);
    let wanted = rustix::fs::fstat(tree);
    matches!((there, wanted), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}
