//! What guests are started from: a root file system of Debian (made once), a disk with the release build, and an
//! initrd with our own init and keys.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is in the root besides Debian's essential packages.
const PACKAGES: &str =
    "linux-image-amd64,openssh-server,openmpi-bin,libfabric-bin,iproute2,ethtool,iputils-ping,kmod";
/// What the initrd needs to reach the disks.
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// Files that a guest is started with.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) root: PathBuf,
    pub(super) site: PathBuf,
    pub(super) initrd: PathBuf,
    /// Lets ann and root in.
    pub(super) key: PathBuf,
}

/// Makes what is missing below `folder`, and always what comes from this repository.
pub(super) fn make(workspace: &Path, folder: &Path) -> Result<Image, String> {
    fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let tree = folder.join("root");
    let suite = suite()?;
    root_tree(folder, &tree, &suite, PACKAGES)?;
    let root = folder.join("root.img");
    if !root.exists() {
        eprintln!("== guests: a disk of the root file system");
        disk(&tree, &root, "3G")?;
    }
    let key = folder.join("key");
    if !key.exists() {
        run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    }
    let site = folder.join("site.img");
    eprintln!("== guests: a disk of the release build, and an initrd");
    site_disk(workspace, folder, &site)?;
    let release = newest(&tree.join("lib/modules"))?;
    let initrd = folder.join("initrd.img");
    make_initrd(folder, &tree.join("lib/modules").join(&release), &key, &initrd)?;
    let kernel = tree.join("boot").join(format!("vmlinuz-{release}"));
    Ok(Image { kernel, root, site, initrd, key })
}

/// This machine's own suite: the release build needs its C library.
pub(super) fn suite() -> Result<String, String> {
    let text = fs::read_to_string("/etc/os-release").map_err(|why| format!("os-release: {why}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    line.map(str::to_owned).ok_or_else(|| "/etc/os-release names no Debian suite".to_owned())
}

pub(super) fn root_tree(
    folder: &Path,
    tree: &Path,
    suite: &str,
    packages: &str,
) -> Result<(), String> {
    let marker = folder.join("root.is-complete");
    let contents = format!("{suite} {packages}");
    if fs::read_to_string(&marker).is_ok_and(|text| text == contents) {
        return Ok(());
    }
    for old in [&marker, &folder.join("root.img")] {
        let _ = fs::remove_file(old);
    }
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(|why| format!("{}: {why}", tree.display()))?;
    }
    eprintln!("== guests: {suite} in {} by mmdebstrap, minutes", tree.display());
    let mut command = Command::new("mmdebstrap");
    command.args(["--variant=minbase", &format!("--include={packages}"), suite]).arg(tree);
    // From where this machine has its packages.
    let sources = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
    command.args(sources.iter().find(|file| Path::new(file).exists()));
    run(&mut command)?;
    run(Command::new("chroot").arg(tree).args([
        "useradd",
        "-m",
        "-u",
        "2001",
        "-s",
        "/bin/bash",
        "ann",
    ]))?;
    fs::write(&marker, contents).map_err(|why| format!("{}: {why}", marker.display()))
}

/// An ext4 file system with what is in a folder.
pub(super) fn disk(tree: &Path, image: &Path, size: &str) -> Result<(), String> {
    let _ = fs::remove_file(image);
    let half = image.with_extension("half");
    let _ = fs::remove_file(&half);
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-t", "ext4", "-d"]).args([tree, &half]).arg(size).stderr(Stdio::null());
    run(&mut make)?;
    fs::rename(half, image).map_err(|why| format!("{}: {why}", image.display()))
}

/// /usr/local of the guests.
pub(super) fn site_disk(workspace: &Path, folder: &Path, image: &Path) -> Result<(), String> {
    let tree = folder.join("site");
    let _ = fs::remove_dir_all(&tree);
    let mut make = Command::new("make");
    make.args(["--silent", "install", "PREFIX=/usr/local", &format!("DESTDIR={}", tree.display())]);
    run(make.current_dir(workspace))?;
    let (local, source) = (tree.join("usr/local"), workspace.join("xtask/src/guests/exchange.c"));
    let mut compile = Command::new("mpicc.openmpi");
    run(compile
        .args(["-O2", "-Wall", "-Werror", "-o"])
        .arg(local.join("bin/exchange"))
        .arg(source))?;
    disk(&local, image, "400M")
}

fn make_initrd(folder: &Path, modules: &Path, key: &Path, image: &Path) -> Result<(), String> {
    let tree = folder.join("initrd");
    let _ = fs::remove_dir_all(&tree);
    let put = |path: &str, bytes: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let path = tree.join(path);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, bytes))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .map_err(|why| format!("{}: {why}", path.display()))
    };
    let read = |path: &Path| fs::read(path).map_err(|why| format!("{}: {why}", path.display()));
    put(
        "bin/busybox",
        &read(Path::new("/usr/bin/busybox")).or_else(|_| read(Path::new("/bin/busybox")))?,
        0o755,
    )?;
    put("init", include_bytes!("initrd.sh"), 0o755)?;
    put("site/usr/sbin/guest-init", include_bytes!("init.sh"), 0o755)?;
    let (private, public) = (read(key)?, read(&key.with_extension("pub"))?);
    let host = String::from_utf8_lossy(&public).split(' ').take(2).collect::<Vec<_>>().join(" ");
    for home in ["root", "home/ann"] {
        put(&format!("site/{home}/.ssh/authorized_keys"), &public, 0o644)?;
        put(&format!("site/{home}/.ssh/id_ed25519"), &private, 0o600)?;
        put(&format!("site/{home}/.ssh/known_hosts"), format!("* {host}\n").as_bytes(), 0o644)?;
    }
    // One key for all: nobody but these guests is on their network.
    put("site/etc/ssh/ssh_host_ed25519_key", &private, 0o600)?;
    put("site/etc/ssh/ssh_host_ed25519_key.pub", &public, 0o644)?;
    put("site/etc/hosts", b"127.0.0.1 localhost\n10.9.0.1 g1\n10.9.0.2 g2\n", 0o644)?;
    put(
        "site/etc/wiglaf/helper.toml",
        b"[[admit]]\neverybody = true\nlinks = [\"packet\"]\ntune = [\"192.168.80.0/21\"]\n",
        0o644,
    )?;
    let mut order = String::new();
    for file in in_order(modules)? {
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        put(&format!("modules/{name}"), &read(&modules.join(&file))?, 0o644)?;
        order += &format!("{name}\n");
    }
    put("modules/order", order.as_bytes(), 0o644)?;
    let home = tree.join("site/home/ann");
    run(Command::new("chown").args(["-R", "2001:2001"]).arg(&home))?;
    run(Command::new("chmod").arg("700").arg(home.join(".ssh")).arg(tree.join("site/root/.ssh")))?;
    let out = fs::File::create(image).map_err(|why| format!("{}: {why}", image.display()))?;
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | busybox cpio -o -H newc"]).current_dir(&tree).stdout(out);
    run(pack.stderr(Stdio::null()))
}

/// The files of the modules and of all that they need, those first, below the kernel's folder.
fn in_order(modules: &Path) -> Result<Vec<String>, String> {
    let file = modules.join("modules.dep");
    let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    for name in MODULES {
        let head = format!("/{name}.ko:");
        // What is built in has no line.
        let Some(line) = text.lines().find(|line| line.contains(&head)) else { continue };
        // The line names what is needed most last.
        let files: Vec<&str> = line.split_whitespace().collect();
        for file in files.iter().rev().map(|file| file.trim_end_matches(':')) {
            if seen.insert(file) {
                order.push(file.to_owned());
            }
        }
    }
    Ok(order)
}

pub(super) fn newest(folder: &Path) -> Result<String, String> {
    let entries = fs::read_dir(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.max().ok_or_else(|| format!("{} has no kernel's modules", folder.display()))
}

pub(super) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|why| format!("{command:?} cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}
