//! The state folder: everything that there is of a cluster outside of its
//! namespaces. One lock guards it; the lock dies with its holder.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::hostlist::HostList;
use wiglaf_base::paths::{self, NAMES_DIR};
use wiglaf_base::process::Process;
use wiglaf_node::client::{Node, Place};
pub use wiglaf_node::proto::VERSION;

use crate::shape::{NodeShape, Shape};

/// Where clusters live unless told otherwise.
const RUN_DIR: &str = "/run/wiglaf";
/// The cluster that is meant where none is named.
pub const NAME_DEFAULT: &str = "default";
/// What a state folder may hold; anything else is not ours to remove.
const ENTRIES: [&str; 9] = [
    "lock",
    BATCH_DIR,
    RULES_DIR,
    "cluster.json",
    "cluster.json.new",
    "nodes",
    NAMES_DIR,
    "links.json",
    "links.json.new",
];

/// The folder, in a cluster's state folder, of what runs batch jobs.
const BATCH_DIR: &str = "batch";
/// The folder, in a cluster's state folder, of rules for collectives.
pub(crate) const RULES_DIR: &str = "collectives";

/// The folder of one cluster.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
}

/// What is known of a running cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Version of this file.
    pub version: u32,
    /// What the cluster looks like.
    pub shape: Shape,
    /// The boot that it belongs to.
    pub boot_id: String,
    /// The PID namespace in which the pids below count.
    pub pid_namespace: String,
    /// PID 1 of the switch.
    pub switch: Option<Process>,
    /// PID 1 of every node.
    pub nodes: Vec<Process>,
}

/// The right to change a cluster.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// A share in the lock: it is held until all shares are gone.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn share(&self) -> Result<File> {
        self.file.try_clone().cannot(|| "share the lock".to_owned())
    }
}

impl StateDir {
    /// The folder at `path`, or that of the cluster called `name`.
    #[must_use]
    pub fn new(path: Option<&Path>, name: &str) -> Self {
        Self { path: path.map_or_else(|| Path::new(RUN_DIR).join(name), Path::to_path_buf) }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the cluster's nodes have their folders.
    #[must_use]
    pub fn nodes_dir(&self) -> PathBuf {
        self.path.join("nodes")
    }

    /// Where what runs batch jobs has its files, if it is set up.
    #[must_use]
    pub fn batch_dir(&self) -> PathBuf {
        self.path.join(BATCH_DIR)
    }

    /// The folder of a node.
    #[must_use]
    pub fn node_dir(&self, node: &str) -> PathBuf {
        self.nodes_dir().join(node)
    }

    /// The emulated node called `name`; it is not asked yet whether it exists.
    #[must_use]
    pub fn node(&self, name: &str) -> Node {
        let cluster = self.name_to_say().map(str::to_owned);
        Node::new(name, Place::Emulated { folder: self.node_dir(name), cluster })
    }

    fn record_path(&self) -> PathBuf {
        self.path.join("cluster.json")
    }

    /// Makes the folder if needed and takes the lock.
    ///
    /// # Errors
    /// When the folder cannot be made, is not ours, or another `wiglaf` is at work.
    pub fn lock(&self) -> Result<Lock> {
        let shown = self.path.display();
        loop {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&self.path)
                .cannot(|| format!("make the state folder {shown}"))?;
            self.check_owner()?;
            if let Some(stranger) = self.strangers()? {
                return Err(Error::new(format!(
                    "the state folder {shown} holds `{stranger}`, which is not Wiglaf's; choose an \
                     empty folder"
                )));
            }
            let path = self.path.join("lock");
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).custom_flags(libc::O_NOFOLLOW);
            let file = match options.open(&path) {
                Ok(file) => file,
                // Somebody's `down` removed the folder in between.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).cannot(|| format!("open {}", path.display())),
            };
            flock(&file, FlockOperation::LockExclusive).cannot(|| format!("lock {shown}"))?;
            // The file locked must still be the one that others would lock.
            let held = file.metadata().cannot(|| format!("read {}", path.display()))?;
            if fs::metadata(&path)
                .is_ok_and(|now| now.ino() == held.ino() && now.dev() == held.dev())
            {
                return Ok(Lock { file });
            }
        }
    }

    /// Fails when others than its owner, root or this user, could have written what it holds: pids
    /// that are to be killed, for example. There may be no folder.
    fn check_owner(&self) -> Result<()> {
        let shown = self.path.display();
        let meta = match fs::metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            meta => meta.cannot(|| format!("read {shown}"))?,
        };
        let is_owned = [0, rustix::process::geteuid().as_raw()].contains(&meta.uid());
        match is_owned && meta.mode() & 0o022 == 0 {
            true => Ok(()),
            false => Err(Error::new(format!(
                "the state folder {shown} is not believed: others than root and you can write it; \
                 choose one that is yours"
            ))),
        }
    }

    /// An entry of the folder that no cluster makes.
    fn strangers(&self) -> Result<Option<String>> {
        let entries =
            fs::read_dir(&self.path).cannot(|| format!("read {}", self.path.display()))?;
        Ok(entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .find(|name| !ENTRIES.contains(&name.as_str())))
    }

    /// The record of the cluster, if one was brought up here since the last boot.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn record(&self) -> Result<Option<Record>> {
        self.check_owner()?;
        let path = self.record_path();
        let read = |path: &Path| {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
            std::io::read_to_string(file)
        };
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).cannot(|| format!("read {}", path.display())),
        };
        let record: Record = serde_json::from_str(&text).map_err(|error| {
            Error::new(format!(
                "{} is damaged or of another version ({error}); end its processes by hand and \
                 remove the folder",
                path.display()
            ))
        })?;
        Ok((record.boot_id == boot_id()).then_some(record))
    }

    /// The record of a cluster that is there.
    ///
    /// # Errors
    /// When there is none, and as [`Self::record`].
    pub fn running(&self) -> Result<Record> {
        self.record()?.ok_or_else(|| self.not_up())
    }

    /// That there is no cluster, how to start it, and which others could have been meant.
    #[must_use]
    pub fn not_up(&self) -> Error {
        let (name, up) = (self.name(), self.command("up"));
        let said = match name {
            None | Some(NAME_DEFAULT) => format!(
                "no cluster is up; start one with `{up}`, or begin with `wiglaf init` on real PCs"
            ),
            Some(name) => format!("no cluster `{name}` is up; start it with `{up}`"),
        };
        let others = if name.is_some() { others(Path::new(RUN_DIR)) } else { Vec::new() };
        match others.is_empty() {
            true => Error::new(said),
            false => Error::new(format!(
                "{said}, or take one that is: --name {}",
                others.join(", --name ")
            )),
        }
    }

    /// How to call a command of `wiglaf` for this cluster.
    #[must_use]
    pub fn command(&self, command: &str) -> String {
        paths::command(command, self.name_to_say())
    }

    /// Its name, where commands must name it.
    fn name_to_say(&self) -> Option<&str> {
        self.name().filter(|name| *name != NAME_DEFAULT)
    }

    /// Its name, if the folder is where clusters are found by name.
    fn name(&self) -> Option<&str> {
        self.path.strip_prefix(RUN_DIR).ok()?.to_str().filter(|name| !name.contains('/'))
    }

    /// Writes the record, whole or not at all.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write_record(&self, record: &Record) -> Result<()> {
        let new = self.path.join("cluster.json.new");
        let text = serde_json::to_string_pretty(record).cannot(|| "write the record".to_owned())?;
        fs::write(&new, text + "\n").cannot(|| format!("write {}", new.display()))?;
        fs::rename(&new, self.record_path()).cannot(|| format!("rename {}", new.display()))
    }

    /// Removes all files but the lock. The nodes must have ended.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clear(&self) -> Result<()> {
        for entry in ENTRIES.iter().filter(|entry| **entry != "lock") {
            remove(&self.path.join(entry))?;
        }
        Ok(())
    }

    /// Removes what a node has left, which must have ended.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clear_node(&self, node: &str) -> Result<()> {
        remove(&self.node_dir(node))
    }

    /// Removes the folder itself, and its parent when that was ours and is empty.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, _lock: &Lock) -> Result<()> {
        self.clear()?;
        let _ = fs::remove_file(self.path.join("lock"));
        fs::remove_dir(&self.path).cannot(|| format!("remove {}", self.path.display()))?;
        if self.path.parent() == Some(Path::new(RUN_DIR)) {
            let _ = fs::remove_dir(RUN_DIR);
        }
        Ok(())
    }
}

/// The nodes called `names`, or all.
///
/// # Errors
/// When the cluster has no such node.
pub fn select<'a>(record: &'a Record, names: &HostList) -> Result<Vec<&'a NodeShape>> {
    let all = &record.shape.nodes;
    if names.names().is_empty() {
        return Ok(all.iter().collect());
    }
    let find = |name: &String| {
        all.iter().find(|node| node.name == *name).ok_or_else(|| {
            Error::new(format!(
                "the cluster `{}` has no node {name}; it has {}",
                record.shape.name,
                record.shape.names()
            ))
        })
    };
    names.names().iter().map(find).collect()
}

/// The names of the clusters that are there, of those below a folder.
fn others(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_there = |entry: &fs::DirEntry| {
        let state = StateDir { path: entry.path() };
        state.record().is_ok_and(|record| record.is_some())
    };
    let names = entries.filter(is_there).filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The identity of the running kernel.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The PID namespace of this process.
#[must_use]
pub fn pid_namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|l| l.display().to_string()).unwrap_or_default()
}

/// Removes a file, or a folder with all that is in it, if there is one.
fn remove(path: &Path) -> Result<()> {
    let gone = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).cannot(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_folder_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        let state = StateDir::new(Some(dir.path()), "default");
        let error = state.lock().unwrap_err().to_string();
        assert!(error.contains("holds `thesis.tex`"), "{error}");
    }

    #[test]
    fn a_command_for_a_cluster_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let command = |path: Option<&Path>, name| StateDir::new(path, name).command("up");
        assert_eq!(command(None, NAME_DEFAULT), "wiglaf up");
        assert_eq!(command(None, "lab"), "wiglaf up --name lab");
        assert_eq!(command(Some(dir.path()), NAME_DEFAULT), "wiglaf up");
        let missing = StateDir::new(None, "no-such-cluster").not_up().to_string();
        let sentence = "no cluster `no-such-cluster` is up; start it with `wiglaf up --name ";
        assert!(missing.starts_with(sentence), "{missing}");
    }

    #[test]
    fn clusters_that_are_there_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for (name, boot_id) in [("one", boot_id()), ("before", "another boot".to_owned())] {
            let state = StateDir::new(Some(&dir.path().join(name)), NAME_DEFAULT);
            fs::create_dir(state.path()).unwrap();
            let shape = crate::shape::Draft::default().shape(&[]).unwrap();
            let (pid_namespace, nodes) = (pid_namespace(), Vec::new());
            let version = VERSION;
            let record = Record { version, shape, boot_id, pid_namespace, switch: None, nodes };
            state.write_record(&record).unwrap();
        }
        fs::write(dir.path().join("a-file"), "").unwrap();
        assert_eq!(others(dir.path()), ["one"]);
        assert!(others(&dir.path().join("missing")).is_empty());
    }

    #[test]
    fn removing_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        let state = StateDir::new(Some(&path), "default");
        let lock = state.lock().unwrap();
        fs::create_dir_all(state.node_dir("node1")).unwrap();
        state.remove(&lock).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn the_lock_of_a_removed_folder_is_worth_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        let state = StateDir::new(Some(&path), "default");
        let lock = state.lock().unwrap();
        let inode = fs::metadata(path.join("lock")).unwrap().ino();
        let waiting = std::thread::spawn({
            let state = state.clone();
            move || state.lock().map(|_lock| fs::metadata(state.path().join("lock")).is_ok())
        });
        // The kernel's list has an arrow before those who wait for a lock (proc_locks(5)).
        let is_waiting = |line: &str| line.contains("->") && line.contains(&format!(":{inode} "));
        while !fs::read_to_string("/proc/locks").unwrap().lines().any(is_waiting) {
            assert!(!waiting.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        state.remove(&lock).unwrap();
        drop(lock);
        assert!(waiting.join().unwrap().unwrap(), "the second holder locked a file that is gone");
    }

    #[test]
    fn a_damaged_record_is_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()), "default");
        assert!(state.record().unwrap().is_none());
        fs::write(dir.path().join("cluster.json"), "{").unwrap();
        let error = state.record().unwrap_err().to_string();
        assert!(error.contains("cluster.json is damaged") && !error.contains('\n'), "{error}");
    }
}
