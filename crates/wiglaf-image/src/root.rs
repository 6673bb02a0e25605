//! The tree of a node's root file system: Debian's packages by mmdebstrap, and what makes them a node of this cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_join::laid::Build;

use crate::outside::{command, run};
use crate::release::Release;
use crate::users::Account;

/// What mmdebstrap is told of a host's archives.
#[derive(Debug)]
pub(crate) struct Archives {
    /// Files of apt that name them.
    pub(crate) sources: Vec<PathBuf>,
    /// Keys in place of this machine's.
    pub(crate) keys: Option<PathBuf>,
    /// Which version of each package is wanted.
    pub(crate) preferences: PathBuf,
    /// Whether one is a folder.
    pub(crate) has_folders: bool,
    /// Whether Debian's own is to come from elsewhere.
    pub(crate) lacks_debian: bool,
    /// All of it, to tell one from another.
    pub(crate) text: String,
}

/// What every node has besides Debian's essential packages.
pub(crate) const PACKAGES: &[&str] = &[
    "ca-certificates",
    "chrony",
    "dbus",
    "e2fsprogs",
    "ethtool",
    "fdisk",
    "fuse3",
    "initramfs-tools",
    "iproute2",
    "iputils-ping",
    "kmod",
    "less",
    "libfabric1",
    "libpam-systemd",
    "linux-image-amd64",
    "nano",
    "openmpi-bin",
    "openssh-server",
    "procps",
    "rsync",
    "sudo",
    "systemd-resolved",
    "systemd-sysv",
    "udev",
    "usr-is-merged",
    "zstd",
];
/// What nodes have no use for: documents, and drivers of sound, of television, of laboratory sensors and of Wi-Fi, which
/// is no network for MPI.
const EXCLUDED: [&str; 7] = [
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/lib/modules/*/kernel/sound/*",
    "/lib/modules/*/kernel/drivers/iio/*",
    "/lib/modules/*/kernel/drivers/media/*",
    "/lib/modules/*/kernel/drivers/net/wireless/*",
];
/// Below the root while it is made: programs of the release that make the image, and are not in it.
pub(crate) const TOOLS: &str = ".tools";
/// Packages of these.
const TOOL_PACKAGES: &str =
    "grub-common grub-pc-bin grub-efi-amd64-signed shim-signed libdevmapper1.02.1";
/// Debian's archive, where a host that an image is to be like names none.
const DEBIAN: &str = "http://deb.debian.org/debian";
/// mmdebstrap's own way to archives that are folders of this machine.
const FOLDERS_HOOK: &str = "/usr/share/mmdebstrap/hooks/file-mirror-automount";
/// Where settings of mmdebstrap's own are left.
const LEFT: [&str; 2] = ["etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap"];
/// What tells a machine from others.
const IDENTITY: [&str; 6] = [
    "etc/hostname",
    "etc/machine-id",
    "etc/munge/munge.key",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "etc/ssh",
];
/// Debian 12 begins with a package that moves files of older systems, and needs all of Perl, 44 MB. dpkg keeps what
/// another package needs.
const SMALLER: &str = "! dpkg-query -W usrmerge >/dev/null 2>&1 || { dpkg --purge usrmerge && { dpkg --purge \
     $(dpkg-query -W -f '${Package}\\n' libfile-find-rule-perl libnumber-compare-perl libtext-glob-perl perl \
     'perl-modules-*' 'libperl5*') || true; }; }";
const FIRST_BOOT: &str = include_str!("../share/first-boot.sh");
const FIRST_BOOT_UNIT: &str = include_str!("../share/first-boot.service");
const NETWORK: &str =
    "[Match]\nName=en* eth*\n\n[Network]\nDHCP=yes\n\n[DHCPv4]\nClientIdentifier=mac\n";
const NETWORK_MANAGER: &str = "# Written by `wiglaf image build`: systemd-networkd has these cards.\n[keyfile]\n\
    unmanaged-devices=type:ethernet\n";
const SSHD: &str = "# Written by `wiglaf image build`.\nPasswordAuthentication no\n";

/// Makes the tree of packages at `root`. With a `cache` the tree is kept there as well, and taken from there if it
/// has these packages.
pub(crate) fn make(
    release: Release,
    packages: &[String],
    archives: Option<&Archives>,
    cache: Option<&Path>,
    root: &Path,
) -> Result<()> {
    let Some(cache) = cache else { return debootstrap(release, packages, archives, root) };
    let (tar, list) = (
        cache.join(format!("{}.tar", release.suite())),
        cache.join(format!("{}.packages", release.suite())),
    );
    let further = archives.map_or("", |archives| &archives.text);
    let packages_text = format!("{}{further}", packages.join(" "));
    if !fs::read_to_string(&list).is_ok_and(|text| text == packages_text) {
        fs::create_dir_all(cache).cannot(|| format!("make the folder {}", cache.display()))?;
        let _ = fs::remove_file(&list);
        let half = tar.with_extension("half.tar");
        debootstrap(release, packages, archives, &half)?;
        fs::rename(&half, &tar)
            .and_then(|()| fs::write(&list, &packages_text))
            .cannot(|| format!("write {}", tar.display()))?;
    }
    fs::create_dir_all(root).cannot(|| format!("make the folder {}", root.display()))?;
    let mut unpack = command("tar");
    unpack.args([
        "--extract",
        "--xattrs",
        "--xattrs-include=*",
        "--numeric-owner",
        "--preserve-permissions",
    ]);
    run(unpack.arg("--file").arg(&tar).arg("--directory").arg(root), "").map(drop)
}

fn debootstrap(
    release: Release,
    packages: &[String],
    archives: Option<&Archives>,
    to: &Path,
) -> Result<()> {
    let mut make = command("mmdebstrap");
    make.args(["--quiet", "--variant=apt", "--mode=root"]);
    make.args([
        "--aptopt=APT::Install-Recommends \"false\"",
        "--aptopt=Acquire::Languages \"none\"",
    ]);
    // An image that is half made is thrown away.
    make.arg("--dpkgopt=force-unsafe-io");
    make.args(EXCLUDED.map(|path| format!("--dpkgopt=path-exclude={path}")));
    make.arg(
        "--essential-hook=mkdir -p \"$1/etc/initramfs-tools/conf.d\" && printf \
         'COMPRESS=zstd\\nCOMPRESSLEVEL=3\\nRESUME=none\\n' > \"$1/etc/initramfs-tools/conf.d/wiglaf\"",
    );
    make.arg(format!(
        "--customize-hook=mkdir \"$1/{TOOLS}\" && cd \"$1/{TOOLS}\" && APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" \
         apt-get -qq -o APT::Sandbox::User=root download {TOOL_PACKAGES} && for deb in *.deb; do dpkg-deb -x \
         \"$deb\" . && rm \"$deb\" || exit 1; done"
    ));
    if let Some(archives) = archives {
        make.arg(format!("--aptopt=Dir::Etc::Preferences \"{}\"", archives.preferences.display()));
        make.args(archives.keys.iter().map(|keys| format!("--keyring={}", keys.display())));
        if archives.has_folders {
            make.arg(format!("--hook-dir={FOLDERS_HOOK}"));
        }
    }
    make.arg(format!("--include={}", packages.join(","))).arg(release.suite()).arg(to);
    if let Some(archives) = archives.filter(|archives| !archives.sources.is_empty()) {
        if archives.lacks_debian {
            make.arg(DEBIAN);
        }
        make.args(&archives.sources);
    }
    run(&mut make, "").map(drop)
}

/// Makes the tree one of a node, without what tells one from others.
pub(crate) fn finish(
    root: &Path,
    build: &Build,
    users: &[Account],
    cluster: Option<&Hosts>,
) -> Result<()> {
    LEFT.iter().for_each(|path| drop(fs::remove_file(root.join(path))));
    run(chroot(root, "sh").args(["-c", SMALLER]), "")?;
    forget_identity(root)?;
    let put = |path: &str, text: &str, mode: u32| put(root, path, text, mode);
    let units = [
        ("etc/systemd/network/80-wiglaf.network", NETWORK, 0o644),
        ("etc/ssh/sshd_config.d/wiglaf.conf", SSHD, 0o644),
        ("etc/systemd/system/wiglaf-first-boot.service", FIRST_BOOT_UNIT, 0o644),
        ("usr/local/lib/wiglaf/first-boot", FIRST_BOOT, 0o755),
        // Links of the current kernel and the one before stand at the top; the boot loader's file names these.
        ("etc/kernel-img.conf", "do_symlinks = yes\n", 0o644),
    ];
    units.iter().try_for_each(|(path, text, mode)| put(path, text, *mode))?;
    put("etc/hosts", &hosts_file(cluster), 0o644)?;
    if root.join("usr/sbin/NetworkManager").exists() {
        // Two daemons would ask for addresses.
        put("etc/NetworkManager/conf.d/wiglaf.conf", NETWORK_MANAGER, 0o644)?;
    }
    let resolv = root.join("etc/resolv.conf");
    let _ = fs::remove_file(&resolv);
    symlink("../run/systemd/resolve/stub-resolv.conf", &resolv)
        .cannot(|| "write resolv.conf".to_owned())?;
    let laid = build.lay_down(root)?;
    let programs = laid.iter().filter(|path| {
        path.extension().is_some_and(|e| e == "so")
            || path.parent().is_some_and(|p| p.ends_with("bin") || p.ends_with("sbin"))
    });
    for program in programs {
        run(command("strip").arg("--strip-debug").arg(program), "")?;
    }
    if let Some(cluster) = cluster {
        let text = fs::read_to_string(&cluster.file)
            .cannot(|| format!("read {}", cluster.file.display()))?;
        put("etc/wiglaf/cluster.toml", &text, 0o644)?;
        let names: Vec<_> = users.iter().map(|user| format!("{:?}", user.name)).collect();
        let policy = format!(
            "# Written by `wiglaf image build`.\n[[admit]]\nusers = [{}]\nlinks = [\"packet\"]\ntune = [\"{}\"]\n",
            names.join(", "),
            cluster.network.data
        );
        put("etc/wiglaf/helper.toml", &policy, 0o644)?;
    }
    users.iter().try_for_each(|user| add_user(root, user))?;
    let services = [
        "systemd-networkd.service",
        "systemd-resolved.service",
        "ssh.service",
        "wiglaf-first-boot.service",
        "wiglaf-helper.socket",
        "wiglaf-helper.service",
    ];
    run(chroot(root, "systemctl").arg("enable").args(services), "")?;
    run(&mut chroot(root, "ldconfig"), "").map(drop)
}

/// A program of the tree, in it.
pub(crate) fn chroot(root: &Path, program: &str) -> Command {
    let mut command = command("chroot");
    command.arg(root).arg(program).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn put(root: &Path, path: &str, text: &str, mode: u32) -> Result<()> {
    let path = root.join(path);
    let write = || -> std::io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
    };
    write().cannot(|| format!("write {}", path.display()))
}

/// Removes what tells a machine from others.
pub(crate) fn forget_identity(root: &Path) -> Result<()> {
    for path in IDENTITY.map(|path| root.join(path)) {
        let files: Vec<PathBuf> = match path.ends_with("etc/ssh") {
            false => vec![path],
            true => fs::read_dir(&path)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
                .filter(|file| {
                    file.file_name().is_some_and(|n| n.to_string_lossy().starts_with("ssh_host_"))
                })
                .collect(),
        };
        for file in files.iter().filter(|file| file.symlink_metadata().is_ok()) {
            fs::remove_file(file).cannot(|| format!("remove {}", file.display()))?;
        }
    }
    // Empty: systemd makes one when the node starts.
    put(root, "etc/machine-id", "", 0o444)
}

/// Names of the cluster's hosts whose addresses are known.
fn hosts_file(cluster: Option<&Hosts>) -> String {
    let known = cluster.into_iter().flat_map(|cluster| &cluster.nodes);
    let known =
        known.filter_map(|node| node.address.map(|address| format!("{address} {}\n", node.name)));
    format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n{}", known.collect::<String>())
}

fn add_user(root: &Path, user: &Account) -> Result<()> {
    let Account { name, uid, gid, home, is_admin, keys } = user;
    if *uid != 0 {
        let group = user.group()?;
        // The group may be one of Debian's own.
        let groups =
            fs::read_to_string(root.join("etc/group")).cannot(|| "read etc/group".to_owned())?;
        if !groups.lines().any(|line| line.split(':').nth(2) == Some(&gid.to_string())) {
            run(chroot(root, "groupadd").args(["--gid", &gid.to_string(), &group]), "")?;
        }
        let mut add = chroot(root, "useradd");
        add.args(["--create-home", "--shell", "/bin/bash", "--home-dir", home]);
        run(add.args(["--uid", &uid.to_string(), "--gid", &gid.to_string(), name]), "")
            .map_err(|error| Error::new(format!("{name} gets no account in the image: {error}")))?;
    }
    let home = home.trim_start_matches('/');
    put(root, &format!("{home}/.ssh/authorized_keys"), &(keys.join("\n") + "\n"), 0o600)?;
    let folder = root.join(home).join(".ssh");
    let give = || -> std::io::Result<()> {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for path in [&folder, &folder.join("authorized_keys")] {
            std::os::unix::fs::chown(path, Some(*uid), Some(*gid))?;
        }
        Ok(())
    };
    give().cannot(|| format!("give {} to {name}", folder.display()))?;
    match is_admin {
        true => put(
            root,
            &format!("etc/sudoers.d/wiglaf-{name}"),
            &format!("{name} ALL=(ALL:ALL) NOPASSWD: ALL\n"),
            0o440,
        ),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_forgotten_and_settings_stay() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/ssh_host_rsa_key.pub",
            "etc/ssh/sshd_config",
            "etc/hostname",
            "etc/munge/munge.key",
            "etc/machine-id",
        ] {
            put(root.path(), path, "x", 0o600).unwrap();
        }
        forget_identity(root.path()).unwrap();
        let has = |path: &str| root.path().join(path).exists();
        assert!(has("etc/ssh/sshd_config"));
        assert!(!has("etc/ssh/ssh_host_rsa_key") && !has("etc/ssh/ssh_host_rsa_key.pub"));
        assert!(!has("etc/hostname") && !has("etc/munge/munge.key"));
        assert_eq!(fs::read_to_string(root.path().join("etc/machine-id")).unwrap(), "");
    }

    #[test]
    fn what_shells_read_they_understand() {
        for script in [FIRST_BOOT, SMALLER] {
            let checked = Command::new("sh").args(["-n", "-c", script]).status().unwrap();
            assert!(checked.success());
        }
    }
}
