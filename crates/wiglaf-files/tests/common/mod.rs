//! Servers for tests: real processes, reached over loopback.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Once;

use tempfile::TempDir;
use wiglaf_files::{Files, Node, SERVER_VAR};

/// Where cargo put this crate's artifacts: `target/PROFILE`.
pub(crate) fn target() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    deps.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Exported, too: files may be longer there than on a disk.
pub(crate) const SHM: &str = "/dev/shm";

/// The folder that all servers of a test program export.
pub(crate) fn base() -> &'static Path {
    static ONCE: Once = Once::new();
    static BASE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let base = BASE.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("files-{}", program.file_stem().unwrap().to_str().unwrap()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    });
    ONCE.call_once(|| {
        let server = target().join("examples/server");
        let command = format!("{} {} {SHM}", server.display(), base.display());
        // SAFETY: every test begins here, and none reads the environment before
        // this has returned.
        unsafe {
            std::env::set_var(SERVER_VAR, command);
            std::env::set_var("WIGLAF_IP", "127.0.0.1");
            std::env::set_var("WIGLAF_LINK", "udp");
        }
    });
    base
}

/// A folder that a server of this test's own serves.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) node: Node,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new_in(base()).unwrap();
        let node = Files::new().attach("remote").unwrap();
        assert!(!node.is_local());
        node.enter(dir.path()).unwrap();
        Self { dir, node }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// The processes whose parent is this one and that serve files.
pub(crate) fn servers() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let pids: Vec<i32> = children
        .flat_map(|c| c.split_whitespace().map(|p| p.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    pids
}
