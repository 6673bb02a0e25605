//! What a host has: its packages, and its files below some folders with their digests. What of that tells one host from
//! another, and the contents of those files that others get.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use wiglaf_base::error::{Error, Result};
use wiglaf_base::shell::quoted;

use crate::joined::digest;
use crate::manifest::{BATCH, EXTRA, Entry, Manifest, ROOTS};
use crate::packages::{LIST, listed};
use crate::remote::Shell;

/// Below it each update has its manifest, in a folder with a number.
pub(crate) const UPDATES: &str = "/var/lib/wiglaf/update";
/// What is compared unless other folders are named.
const FOLDERS: &str = "/etc";
/// Longest listing of a host, in bytes.
pub(crate) const LISTING_LEN_MAX: u64 = 64 << 20;
/// What tells one host from another, or is made from what does: files, and folders with all that is below them.
pub(crate) const IDENTITY: [&str; 46] = [
    "/etc/.pwd.lock",
    "/etc/NetworkManager",
    "/etc/X11/xorg.conf",
    "/etc/adjtime",
    "/etc/alternatives",
    "/etc/cloud",
    "/etc/crypttab",
    "/etc/default/grub",
    "/etc/dhcp",
    "/etc/fstab",
    "/etc/group",
    "/etc/group-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/hostid",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/initramfs-tools/conf.d/resume",
    "/etc/iscsi/initiatorname.iscsi",
    "/etc/krb5.keytab",
    "/etc/ld.so.cache",
    "/etc/lvm",
    "/etc/machine-id",
    "/etc/mailname",
    "/etc/mdadm",
    "/etc/mtab",
    "/etc/munge",
    "/etc/netplan",
    "/etc/network",
    "/etc/nvme/hostid",
    "/etc/nvme/hostnqn",
    "/etc/openvpn",
    "/etc/passwd",
    "/etc/passwd-",
    "/etc/resolv.conf",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssl/private",
    "/etc/subgid",
    "/etc/subuid",
    "/etc/systemd/network",
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    // Wiglaf's own, which `join` and `batch setup` bring.
    "/etc/slurm",
    "/etc/wiglaf",
];
/// Never compared: they are no files of a disk, or the records of dpkg and of Wiglaf.
pub(crate) const NEVER: [&str; 7] =
    ["/proc", "/sys", "/dev", "/run", "/var/lib/dpkg", "/var/lib/apt", "/var/lib/wiglaf"];
/// Packages that depend on the machine, or that Wiglaf brings by other ways: their names begin so.
pub(crate) const OWN_PACKAGES: [&str; 6] =
    ["grub-", "shim-", "wiglaf", "libwiglaf", "intel-microcode", "amd64-microcode"];

/// Tells of files: kind, mode, owner, length, target, path; then their digests, and what Wiglaf has changed.
const LOOK: &str = r#"
apt-mark showauto | sed 's/^/auto\t/'
nl='
'
tab=$(printf '\t')
for at in "$@"; do
    [ -e "$at" ] || continue
    find "$at" -xdev \( -path "*$nl*" -o -lname "*$nl*" -o -lname "*$tab*" \) -prune -o \
        \( -type f -o -type l -o -type d \) -printf 'at\t%y\t%m\t%u:%g\t%s\t%l\t%p\n'
    find "$at" -xdev -path "*$nl*" -prune -o -type f -print0 | xargs -0 -r sha256sum -z | tr '\0' '\n' |
        sed 's/^/sum\t/'
done
for at in $manifests; do [ -r "$at" ] && printf 'manifest\t' && tr -d '\n' <"$at" && echo; done
for at in $updates/*/; do [ -d "$at" ] && printf 'update\t%s\n' "$(basename "$at")"; done
printf 'end\t\n'
"#;

/// Something at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) owner: String,
    pub(crate) len: u64,
    /// A link's target, or a file's digest.
    pub(crate) content: String,
}

/// What a host has.
#[derive(Debug, Default)]
pub(crate) struct Has {
    pub(crate) at: BTreeMap<String, At>,
    pub(crate) packages: BTreeMap<String, String>,
    pub(crate) held: BTreeSet<String>,
    pub(crate) autos: BTreeSet<String>,
    /// What Wiglaf has changed there.
    pub(crate) own: BTreeSet<String>,
    pub(crate) own_packages: BTreeSet<String>,
    pub(crate) updates: Vec<u32>,
}

impl Has {
    /// Looks at a host's packages, and at what is below these paths.
    pub(crate) fn look(host: &Shell, paths: &[String]) -> Result<Self> {
        let words: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        let script = format!(
            "LC_ALL=C; export LC_ALL\nmanifests='{ROOTS} {BATCH} {EXTRA}'\nupdates={UPDATES}\nset -- {}\n{LIST}\n{LOOK}",
            words.join(" ")
        );
        let said = host.run(&script, LISTING_LEN_MAX, b"")?;
        Self::parse(&String::from_utf8_lossy(&said)).ok_or_else(|| {
            Error::new(format!(
                "{}: there are too many files, or no Debian; choose fewer folders with --path",
                host.name()
            ))
        })
    }

    pub(crate) fn parse(said: &str) -> Option<Self> {
        let mut has = Self::default();
        let mut is_whole = false;
        // A name that is no text cannot be asked for again.
        for line in said.lines().filter(|line| !line.contains(char::REPLACEMENT_CHARACTER)) {
            if let Some(((name, version), is_held)) = listed(line) {
                has.held.extend(is_held.then(|| name.clone()));
                has.packages.insert(name, version);
                continue;
            }
            let (what, rest) = line.split_once('\t')?;
            match what {
                "auto" => {
                    has.autos.insert(rest.to_owned());
                }
                "at" => {
                    let fields: Vec<&str> = rest.splitn(6, '\t').collect();
                    let [kind, mode, owner, len, target, path] = fields[..] else { continue };
                    let at = At {
                        kind: kind.chars().next()?,
                        mode: u32::from_str_radix(mode, 8).ok()?,
                        owner: owner.to_owned(),
                        len: len.parse().ok()?,
                        content: target.to_owned(),
                    };
                    has.at.insert(path.to_owned(), at);
                }
                "sum" => {
                    let (sum, path) = rest.split_once("  ")?;
                    if let Some(at) = has.at.get_mut(path).filter(|at| at.kind == 'f') {
                        sum.clone_into(&mut at.content);
                    }
                }
                "manifest" => {
                    let manifest = Manifest::parse(rest, Path::new(UPDATES)).ok()?;
                    let paths = manifest.entries.iter().map(Entry::path);
                    has.own.extend(paths.map(|path| path.display().to_string()));
                    has.own_packages.extend(manifest.packages);
                    has.own_packages.extend(manifest.late_packages);
                }
                "update" => has.updates.extend(rest.parse::<u32>().ok()),
                "end" => is_whole = true,
                _ => {}
            }
        }
        // What vanished between the two looks has no digest.
        has.at.retain(|_, at| at.kind != 'f' || !at.content.is_empty());
        is_whole.then_some(has)
    }
}

pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

/// Whether a path is no host's own; `named` are the user's.
pub(crate) fn is_common(path: &str, named: &[String]) -> bool {
    if NEVER.iter().any(|never| is_below(path, never)) || path.contains(".wiglaf-") {
        return false;
    }
    let is_key = is_below(path, "/etc/ssh") && path.contains("ssh_host_");
    let is_own = is_key || IDENTITY.iter().any(|own| is_below(path, own));
    !is_own || named.iter().any(|name| name == path)
}

/// Checks the paths that were named, and adds those that are always compared.
pub(crate) fn chosen(paths: &[PathBuf]) -> Result<Vec<String>> {
    let mut all = vec![FOLDERS.to_owned()];
    for path in paths {
        let is_plain =
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let text = path.to_str().filter(|text| !text.contains(['\n', '\t']));
        let text = text.filter(|_| path.is_absolute() && is_plain).map(|t| t.trim_end_matches('/'));
        match text {
            Some(text) if text.is_empty() || NEVER.iter().any(|never| is_below(text, never)) => {
                return Err(Error::new(format!(
                    "{} is no folder to copy from one host to others; name one such as --path /usr/local/etc",
                    path.display()
                )));
            }
            Some(text) => all.push(text.to_owned()),
            None => {
                return Err(Error::new(format!(
                    "{} is no whole path; name one such as --path /usr/local/etc",
                    path.display()
                )));
            }
        }
    }
    Ok(all)
}

/// What files contain, by digest; each `(digest, path, length)`, once.
///
/// # Errors
/// When one is not as it was listed.
pub(crate) fn contents(
    host: &Shell,
    wanted: &[(&str, &str, u64)],
) -> Result<BTreeMap<String, Vec<u8>>> {
    let len: u64 = wanted.iter().map(|(_, _, len)| len).sum();
    let names: String = wanted.iter().map(|(_, path, _)| format!("{path}\0")).collect();
    // The names first, whole: else both sides could wait for each other.
    let script =
        "f=$(mktemp) && cat >\"$f\" && xargs -0 -r cat -- <\"$f\"; s=$?; rm -f \"$f\"; exit $s";
    let said = host.run(script, len + 1, names.as_bytes())?;
    let mut rest = &said[..];
    let mut contents = BTreeMap::new();
    for (sum, path, len) in wanted {
        let part = usize::try_from(*len).ok().and_then(|len| rest.split_at_checked(len));
        match part {
            Some((part, others)) if digest(part) == *sum => {
                contents.insert((*sum).to_owned(), part.to_vec());
                rest = others;
            }
            _ => {
                return Err(Error::new(format!(
                    "{path} has just been changed on {}; try again",
                    host.name()
                )));
            }
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_of_a_host_is_left_out_unless_a_file_is_named_itself() {
        let none: [String; 0] = [];
        for own in [
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/machine-id",
            "/etc/hostname",
            "/etc/hosts",
            "/etc/fstab",
            "/etc/network/interfaces",
            "/etc/NetworkManager/system-connections/x",
            "/etc/munge/munge.key",
            "/etc/shadow",
            "/var/lib/wiglaf/manifest.json",
        ] {
            assert!(!is_common(own, &none), "{own}");
        }
        for common in ["/etc/ssh/sshd_config", "/etc/hosts.allow", "/etc/security/limits.conf"] {
            assert!(is_common(common, &none), "{common}");
        }
        assert!(is_common("/etc/shadow", &["/etc/shadow".to_owned()]));
        assert!(!is_common("/proc/x", &["/proc/x".to_owned()]));
    }

    #[test]
    fn paths_that_are_no_folders_of_a_disk_are_refused() {
        for path in ["/", "/proc", "/etc/../proc", "opt", "/var/lib/dpkg/status", "/a\nb"] {
            let error = chosen(&[path.into()]).unwrap_err().to_string();
            assert!(error.contains("--path /usr/local/etc"), "{error}");
        }
        assert_eq!(chosen(&["/opt/".into()]).unwrap(), ["/etc", "/opt"]);
    }

    #[test]
    fn listing_that_was_cut_off_is_none() {
        let said = "package\tii \ta\t1\npackage\trc \tb\t1\npackage\thi \tc\t2\nat\tf\t640\tbob:root\t3\t\t/etc/x\n\
                    sum\t00ff  /etc/x\nupdate\t3\nend\t\n";
        let has = Has::parse(said).unwrap();
        assert_eq!(has.packages.len(), 2);
        assert!(has.held.contains("c"));
        assert_eq!((has.at["/etc/x"].mode, has.at["/etc/x"].content.as_str()), (0o640, "00ff"));
        assert_eq!(has.updates, [3]);
        assert!(Has::parse(said.strip_suffix("end\t\n").unwrap()).is_none());
        assert!(Has::parse("nonsense\nend\t\n").is_none());
    }
}
