//! A node's file system: an overlay over the machine's root whose upper layer
//! is the node's own, with /proc, /sys, /dev/shm of its own, and the folders
//! that a cluster shares.
//!
//! All mounts live in the node's mount namespace only and vanish with it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount, mount_change,
    move_mount, unmount,
};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::{AGENT, EXE};
use wiglaf_node::mounts::{self, Mounted};
use wiglaf_node::trees::clone_tree;

use crate::config::NodeConfig;

/// A path has so many links at most, as the kernel has it.
const LINKS_MAX: usize = 40;
/// Kernel views; every node mounts its own.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Scratch folders; where the machine mounts something there, the node gets an empty one.
const SCRATCH: [(&str, &str); 3] =
    [("/run", "mode=0755"), ("/tmp", "mode=1777"), ("/var/tmp", "mode=1777")];
/// System folders: mounted file systems below them get an overlay of their own.
const SYSTEM: [&str; 7] = ["/usr", "/var", "/etc", "/opt", "/lib", "/bin", "/boot"];

/// What belongs to the system, or to root, at the top of the root file system.
const SYSTEM_TOP: [&str; 19] = [
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "sys",
    "tmp",
    "usr",
    "var",
];

/// Attaches a tree to a path of the root that is being built, making the mount point if there is none.
/// A link there, an absolute one too, leads to somewhere in that root, and not to the machine's folder.
fn attach_below(root: &Path, tree: &OwnedFd, path: &Path) -> Result<()> {
    attach(root, tree, path, Links::All)
}

/// Attaches a tree to a path of this root, in which users work: what they have planted there leads
/// nowhere.
pub(super) fn attach_here(tree: &OwnedFd, path: &Path) -> Result<()> {
    attach(Path::new("/"), tree, path, Links::OfRoot)
}

/// Which links lead on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Links {
    All,
    OfRoot,
}

fn attach(root: &Path, tree: &OwnedFd, path: &Path, links: Links) -> Result<()> {
    let shown = || format!("mount {}", path.display());
    let is_file = rustix::fs::fstat(tree)
        .is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile);
    let at = mount_point(root, path, is_file, links)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree.as_fd(), "", &at, "", flags).cannot(shown)
}

/// The file or folder at `path` below `root`, made if there is none. Each step is taken from the folder
/// that the last one has opened, so that nobody turns it aside.
fn mount_point(root: &Path, path: &Path, is_file: bool, links: Links) -> Result<OwnedFd> {
    let shown = || format!("make the mount point {}", path.display());
    let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // How to go on, last step first, and the folders that were gone through.
    let mut ahead = steps(path);
    let mut behind = vec![rustix::fs::open(root, look, Mode::empty()).cannot(shown)?];
    let mut links_left = LINKS_MAX;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            behind.truncate((behind.len() - 1).max(1));
            continue;
        }
        let Some(at) = behind.last() else { break };
        let open = || openat(at, &name, look, Mode::empty());
        let made = |outcome: rustix::io::Result<()>| match outcome {
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error),
        };
        let found = open().or_else(|error| match error {
            Errno::NOENT if is_file && ahead.is_empty() => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                made(openat(at, &name, flags, Mode::from(0o644)).map(drop))
            }
            Errno::NOENT => made(mkdirat(at, &name, Mode::from(0o755))),
            error => Err(error),
        });
        let found = found.cannot(shown)?;
        let about = rustix::fs::fstat(&found).cannot(shown)?;
        if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
            behind.push(found);
            continue;
        }
        if links == Links::OfRoot && about.st_uid != 0 {
            return Err(Error::new(format!(
                "cannot mount {}: on the node `{}` in it is a link of user {}; remove it there",
                path.display(),
                name.display(),
                about.st_uid
            )));
        }
        links_left -= 1;
        if links_left == 0 {
            return Err(Errno::LOOP).cannot(shown);
        }
        let target = readlinkat(&found, "", Vec::new()).cannot(shown)?.into_bytes();
        let target = Path::new(OsStr::from_bytes(&target));
        if target.is_absolute() {
            behind.truncate(1);
        }
        ahead.append(&mut steps(target));
    }
    behind.pop().ok_or_else(|| Error::new("a path leads nowhere"))
}

/// The parts of a path, last one first.
fn steps(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    parts.rev().collect()
}

/// Builds the root and makes it `/`. Returns the folders that all nodes share.
pub(super) fn enter(config: &NodeConfig) -> Result<Vec<PathBuf>> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .cannot(|| "detach the node's mounts from the machine's".to_owned())?;
    let mounts = Mounts::read(&config.state)?;
    // Copied first, before mounts of ours could become part of the copies.
    let mut trees = vec![
        (PathBuf::from("/dev"), clone_tree(Path::new("/dev"), true)?),
        (PathBuf::from(EXE), clone_tree(Path::new("/proc/self/exe"), false)?),
    ];
    let mut shared = mounts.data;
    shared.extend(config.shared.iter().cloned());
    for path in &shared {
        trees.push((path.clone(), clone_tree(path, true)?));
    }
    trees.push((config.state.clone(), clone_tree(&config.state, false)?));
    shared.push(config.state.clone());

    let base = config.state.join("nodes").join(&config.node).join("root");
    fs::create_dir_all(&base).cannot(|| format!("make {}", base.display()))?;
    mount("tmpfs", &base, "tmpfs", MountFlags::empty(), Some(c"mode=0755"))
        .cannot(|| "mount the node's own layer".to_owned())?;
    let root = base.join("merged");
    overlay(&base, "root", Path::new("/"), &root)?;
    for (i, lower) in mounts.system.iter().enumerate() {
        overlay(&base, &format!("mount{i}"), lower, &inside(&root, lower))?;
    }
    for (path, options) in &mounts.scratch {
        fresh("tmpfs", &inside(&root, path), options)?;
    }
    for (path, tree) in &trees {
        attach_below(&root, tree, path)?;
    }
    if let Some(scratch) = &config.scratch {
        own_folder(&base, &root, scratch)?;
    }
    fresh("proc", &root.join("proc"), "")?;
    fresh("sysfs", &root.join("sys"), "")?;
    fresh("tmpfs", &root.join("dev/shm"), "mode=1777")?;
    if root.join("dev/mqueue").exists() {
        fresh("mqueue", &root.join("dev/mqueue"), "")?;
    }
    name_hosts(&root, config)?;
    write_agent(&root)?;
    pivot(&root)?;
    shared.iter().for_each(|path| mounts::detach_copies(path));
    Ok(shared)
}

/// `path` below `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// A folder that is the node's own, also where the machine's is shared, and
/// where everybody may write.
fn own_folder(base: &Path, root: &Path, at: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let own = base.join("scratch");
    fs::create_dir(&own)
        .and_then(|()| fs::set_permissions(&own, fs::Permissions::from_mode(0o1777)))
        .cannot(|| format!("make the node's scratch folder {}", own.display()))?;
    attach_below(root, &clone_tree(&own, false)?, at)
}

fn overlay(base: &Path, layer: &str, lower: &Path, at: &Path) -> Result<()> {
    let (upper, work) = (base.join(layer).join("upper"), base.join(layer).join("work"));
    for dir in [&upper, &work, &at.to_path_buf()] {
        fs::create_dir_all(dir).cannot(|| format!("make {}", dir.display()))?;
    }
    // A top folder that is writable to all, say, must stay so.
    if let Ok(meta) = fs::metadata(lower) {
        let _ = fs::set_permissions(&upper, meta.permissions());
    }
    let escape = |path: &Path| path.display().to_string().replace('\\', "\\\\").replace(':', "\\:");
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        escape(lower),
        upper.display().to_string().replace(',', "\\,"),
        work.display().to_string().replace(',', "\\,"),
    );
    let options = std::ffi::CString::new(options).cannot(|| "name the layers".to_owned())?;
    mount("overlay", at, "overlay", MountFlags::empty(), Some(options.as_c_str()))
        .cannot(|| format!("lay the node's own layer over {} (overlayfs)", lower.display()))
}

/// Mounts a new instance of a file system.
fn fresh(kind: &str, at: &Path, options: &str) -> Result<()> {
    fs::create_dir_all(at).cannot(|| format!("make the mount point {}", at.display()))?;
    let options = std::ffi::CString::new(options).cannot(|| format!("mount {kind}"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(kind, at, kind, flags, Some(options.as_c_str()))
        .cannot(|| format!("mount {kind} on {}", at.display()))
}

fn name_hosts(root: &Path, config: &NodeConfig) -> Result<()> {
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for (address, name) in &config.hosts {
        hosts += &format!("{address} {name}\n");
    }
    for (file, text) in [("hosts", hosts), ("hostname", format!("{}\n", config.node))] {
        let path = root.join("etc").join(file);
        // It may be a link to somewhere else.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).cannot(|| format!("write /etc/{file}"))?;
    }
    Ok(())
}

fn write_agent(root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let path = inside(root, Path::new(AGENT));
    let script = format!("#!/bin/sh\nexec {EXE} agent \"$@\"\n");
    fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
        .cannot(|| format!("write {AGENT}"))
}

fn pivot(root: &Path) -> Result<()> {
    rustix::process::chdir(root).cannot(|| "enter the new root".to_owned())?;
    rustix::process::pivot_root(".", ".").cannot(|| "change the root".to_owned())?;
    // Now the old root lies over the new one, at the same place.
    unmount(".", UnmountFlags::DETACH).cannot(|| "leave the old root".to_owned())?;
    rustix::process::chdir("/").cannot(|| "enter the new root".to_owned())
}

/// What the machine has mounted besides its root, by what becomes of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounts {
    /// Gets an overlay.
    system: Vec<PathBuf>,
    /// Is replaced by an empty folder.
    scratch: Vec<(PathBuf, &'static str)>,
    /// Is shared.
    data: Vec<PathBuf>,
}

impl Mounts {
    fn read(state: &Path) -> Result<Self> {
        let text = fs::read("/proc/self/mountinfo").cannot(|| "read the mounts".to_owned())?;
        let mounted = text
            .split(|b| *b == b'\n')
            .filter_map(|line| line.split(|b| *b == b' ').nth(4).map(mounts::unescape));
        // Not another node's folder that is mounted on the machine.
        let ours = Mounted::all().cannot(|| "read the mounts".to_owned())?;
        let points = mounted.filter(|dir| !ours.iter().any(|mounted| mounted.dir == *dir));
        let points = points.chain(top_data()).collect();
        Ok(Self::sort(points, state, Path::is_dir))
    }

    /// Parents come before what is mounted below them.
    fn sort(points: BTreeSet<PathBuf>, state: &Path, is_dir: impl Fn(&Path) -> bool) -> Self {
        let mut mounts = Self::default();
        for point in points {
            let below = |dirs: &[&str]| dirs.iter().any(|dir| point.starts_with(dir));
            if point == Path::new("/") || point.starts_with(state) || below(&KERNEL) {
                continue;
            }
            if let Some((_, options)) = SCRATCH.iter().find(|(dir, _)| point.starts_with(dir)) {
                if SCRATCH.iter().any(|(dir, _)| point == Path::new(dir)) {
                    mounts.scratch.push((point, options));
                }
            } else if below(&SYSTEM) {
                // A mounted file, such as a container's /etc/hosts, has no layer.
                if is_dir(&point) {
                    mounts.system.push(point);
                }
            } else if !mounts.data.iter().any(|shared| point.starts_with(shared)) {
                // Copied with all that is mounted below it.
                mounts.data.push(point);
            }
        }
        mounts
    }
}

/// The folders of the root that are no part of the system: users' data, shared
/// like a mounted disk. An overlay would also go on denying a file that was
/// asked for before it was made.
fn top_data() -> Vec<PathBuf> {
    let entries = fs::read_dir("/").into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|e| !e.file_name().to_str().is_none_or(|name| SYSTEM_TOP.contains(&name)))
        .map(|e| e.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_made_and_links_of_users_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        let link = |target: &str, at: &str, uid: u32| {
            let at = root.join(at);
            std::os::unix::fs::symlink(target, &at).unwrap();
            std::os::unix::fs::lchown(at, Some(uid), None)
        };
        let at = |path: &str, is_file, links| {
            let point = mount_point(root, Path::new(path), is_file, links)?;
            let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&point));
            Ok::<_, Error>(fs::read_link(own).unwrap().strip_prefix(root).unwrap().to_owned())
        };
        // What is not there is made; `..` does not lead out of the root.
        assert_eq!(at("/a/b", false, Links::OfRoot).unwrap(), Path::new("a/b"));
        assert_eq!(at("/a/../../../a/file", true, Links::OfRoot).unwrap(), Path::new("a/file"));
        assert!(root.join("a/b").is_dir() && root.join("a/file").is_file());
        if link("/usr", "a/of-user", 65534).is_err() {
            eprintln!("skipped: only root can give a link away");
            return;
        }
        link("../usr", "a/of-root", 0).unwrap();
        link("loop", "a/loop", 0).unwrap();
        for links in [Links::All, Links::OfRoot] {
            assert_eq!(at("/a/of-root/bin", false, links).unwrap(), Path::new("usr/bin"));
            assert!(at("/a/loop/x", false, links).is_err());
        }
        assert_eq!(at("/a/of-user/bin", false, Links::All).unwrap(), Path::new("usr/bin"));
        for path in ["/a/of-user/bin", "/a/of-user", "/a/of-user/new"] {
            let why = at(path, false, Links::OfRoot).unwrap_err().to_string();
            assert!(why.contains("`of-user` in it is a link of user 65534"), "{why}");
        }
        assert!(!root.join("usr/new").exists());
    }

    #[test]
    fn mounts_are_sorted_by_what_becomes_of_them() {
        let points = [
            "/",
            "/proc",
            "/dev/shm",
            "/sys/fs/cgroup",
            "/home",
            "/home/ann",
            "/usr",
            "/tmp",
            "/run",
            "/run/user/1",
            "/var",
            "/var/tmp",
            "/etc/hosts",
            "/data",
            "/run/wiglaf/x/nodes",
        ];
        let points = points.iter().map(PathBuf::from).collect();
        let mounts = Mounts::sort(points, Path::new("/run/wiglaf/x"), |path| {
            path != Path::new("/etc/hosts")
        });
        assert_eq!(mounts.system, [Path::new("/usr"), Path::new("/var")]);
        assert_eq!(mounts.data, [Path::new("/data"), Path::new("/home")]);
        let scratch: Vec<_> =
            mounts.scratch.iter().map(|(p, o)| (p.to_str().unwrap(), *o)).collect();
        assert_eq!(
            scratch,
            [("/run", "mode=0755"), ("/tmp", "mode=1777"), ("/var/tmp", "mode=1777")]
        );
    }
}
