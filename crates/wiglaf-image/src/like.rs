//! A tree that becomes like a configured host: what its packages come from, and what was changed or added there.
//!
//! The tree is not the whole host copied: packages are installed anew, so dpkg's records, the kernel and what packages
//! make for one machine fit the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use wiglaf_base::error::{Context, Result};
use wiglaf_join::model::{Model, Taken};

use crate::outside::run;
use crate::release::Release;
use crate::root::{Archives, chroot};

/// Where apt keeps the names of archives, and keys that are good for all of them.
const SOURCES: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];
const TRUSTED: &str = "/etc/apt/trusted.gpg.d";
/// What is to be made anew when a file below these folders was changed: the first is the command.
const AFTERWARDS: [(&str, &[&str]); 3] = [
    ("update-ca-certificates", &["/etc/ca-certificates.conf", "/usr/local/share/ca-certificates"]),
    ("locale-gen", &["/etc/locale.gen"]),
    (
        "update-initramfs -u -k all",
        &[
            "/etc/initramfs-tools",
            "/etc/modprobe.d",
            "/etc/modules",
            "/etc/modules-load.d",
            "/etc/udev/rules.d",
        ],
    ),
];

/// Writes what mmdebstrap needs to `folder`.
pub(crate) fn archives(
    model: &Model,
    contents: &BTreeMap<String, Vec<u8>>,
    release: Release,
    folder: &Path,
) -> Result<Archives> {
    let cannot = || format!("write below {}", folder.display());
    fs::create_dir_all(folder).cannot(cannot)?;
    let content = |file: &Taken| contents.get(&file.digest).map_or(&[][..], |bytes| &bytes[..]);
    let is_below = |file: &Taken, folder: &str| Path::new(&file.path).starts_with(folder);
    let mut preferences = String::new();
    for (name, version) in &model.versions {
        preferences += &format!("Package: {name}\nPin: version {version}\nPin-Priority: 1001\n\n");
    }
    let (mut sources, mut text) = (Vec::new(), preferences.clone());
    let (mut has_folders, mut lacks_debian) = (false, true);
    let mut keys = BTreeMap::new();
    for file in model.files.iter().filter(|file| SOURCES.iter().any(|at| is_below(file, at))) {
        let Some(name) = Path::new(&file.path).file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let is_source = [".list", ".sources"].iter().any(|end| name.ends_with(end));
        if !is_source || file.target.is_some() {
            continue;
        }
        let mut source = String::from_utf8_lossy(content(file)).into_owned();
        // Keys that are not here lie beside it meanwhile.
        for key in
            model.files.iter().filter(|key| key.target.is_none() && key.path.contains("keyring"))
        {
            if source.contains(&key.path) {
                let name = key.path.rsplit('/').next().unwrap_or_default();
                let at = folder.join(format!("key-{}-{name}", keys.len()));
                fs::write(&at, content(key)).cannot(cannot)?;
                source = source.replace(&key.path, &at.display().to_string());
                keys.insert(key.path.clone(), at);
            }
        }
        let lines = || source.lines().filter(|line| !line.trim_start().starts_with('#'));
        has_folders |= lines().any(|line| line.contains("file:") || line.contains("copy:"));
        let is_debians = |line: &str| {
            let mut words = line.split_whitespace();
            words.any(|word| [release.suite(), "stable", "oldstable"].contains(&word))
        };
        lacks_debian &= !lines().any(is_debians);
        text += &String::from_utf8_lossy(content(file));
        let at = folder.join(name);
        fs::write(&at, source).cannot(cannot)?;
        sources.push(at);
    }
    let own: Vec<&Taken> = model.files.iter().filter(|file| is_below(file, TRUSTED)).collect();
    let trusted = folder.join("trusted");
    if !own.is_empty() {
        fs::create_dir_all(&trusted).cannot(cannot)?;
        for entry in fs::read_dir(TRUSTED).into_iter().flatten().flatten() {
            fs::copy(entry.path(), trusted.join(entry.file_name())).cannot(cannot)?;
        }
        for file in &own {
            let name = Path::new(&file.path).file_name().unwrap_or_default();
            fs::write(trusted.join(name), content(file)).cannot(cannot)?;
        }
    }
    let at = folder.join("preferences");
    fs::write(&at, preferences).cannot(cannot)?;
    Ok(Archives {
        sources,
        keys: (!own.is_empty()).then_some(trusted),
        preferences: at,
        has_folders,
        lacks_debian,
        text,
    })
}

/// Numbers of names in a file such as /etc/passwd.
fn numbers(file: &Path) -> BTreeMap<String, u32> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let number = |line: &str| {
        let mut fields = line.split(':');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(number).collect()
}

/// A tree's files, and who may own them.
struct Tree<'a> {
    root: &'a Path,
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
    notes: Vec<String>,
    changed: BTreeSet<String>,
}

/// Makes the tree at `root` as the host is. Says what could not be as there.
pub(crate) fn apply(
    root: &Path,
    model: &Model,
    contents: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<String>> {
    // mmdebstrap's own names of the archives.
    for entry in fs::read_dir(root.join("etc/apt/sources.list.d")).into_iter().flatten().flatten() {
        fs::remove_file(entry.path()).cannot(|| format!("remove {}", entry.path().display()))?;
    }
    let mut tree = Tree::new(root);
    for file in &model.files {
        tree.put(model, file, contents.get(&file.digest).map_or(&[][..], |bytes| &bytes[..]))?;
    }
    for path in &model.removed {
        if let Some(at) = tree.at(path)
            && at.symlink_metadata().is_ok_and(|about| !about.is_dir())
        {
            fs::remove_file(&at).cannot(|| format!("remove {}", at.display()))?;
            tree.changed.insert(path.clone());
        }
    }
    let Tree { notes, changed, .. } = tree;
    let disable = "for unit; do systemctl disable -- \"$unit\" >/dev/null 2>&1; done; true";
    run(chroot(root, "sh").args(["-c", disable, "sh"]).args(&model.disabled), "")?;
    for (line, folders) in AFTERWARDS {
        let is_due =
            |path: &String| folders.iter().any(|folder| Path::new(path).starts_with(folder));
        if changed.iter().any(is_due) {
            let program = line.split(' ').next().unwrap_or_default();
            let script = format!("! command -v {program} >/dev/null || {line} >/dev/null");
            run(chroot(root, "sh").args(["-c", &script]), "")?;
        }
    }
    Ok(notes)
}

impl<'a> Tree<'a> {
    fn new(root: &'a Path) -> Self {
        Self {
            root,
            users: numbers(&root.join("etc/passwd")),
            groups: numbers(&root.join("etc/group")),
            notes: Vec::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Where a path is in the tree, if no link leads elsewhere on the way, and nothing that is no folder stands there.
    fn at(&mut self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix("/").ok()?;
        if !below.components().all(|part| matches!(part, Component::Normal(_))) {
            self.notes.push(format!("{path} is left out: it is no path of a disk"));
            return None;
        }
        let mut at = self.root.to_owned();
        for part in below.parent()?.components() {
            at.push(part);
            if at.symlink_metadata().is_ok_and(|about| !about.is_dir()) {
                let other = Path::new("/").join(at.strip_prefix(self.root).unwrap_or(&at));
                self.notes.push(format!(
                    "{path} is left out: {} is no folder in the image",
                    other.display()
                ));
                return None;
            }
        }
        Some(self.root.join(below))
    }

    fn owner(&mut self, path: &str, owner: &str) -> (u32, u32, bool) {
        let (user, group) = owner.split_once(':').unwrap_or((owner, "root"));
        let (uid, gid) = (self.users.get(user).copied(), self.groups.get(group).copied());
        if uid.is_none() || gid.is_none() {
            self.notes.push(format!("{path} is root's in the image, which has no {owner}"));
            return (0, 0, false);
        }
        (uid.unwrap_or(0), gid.unwrap_or(0), true)
    }

    fn give(&mut self, path: &str, at: &Path, owner: &str, mode: u32) -> Result<()> {
        let (uid, gid, is_known) = self.owner(path, owner);
        // Somebody else's program does not run as root.
        let mode = if is_known { mode } else { mode & 0o1777 };
        chown(at, Some(uid), Some(gid))
            .and_then(|()| fs::set_permissions(at, fs::Permissions::from_mode(mode)))
            .cannot(|| format!("write {}", at.display()))
    }

    fn put(&mut self, model: &Model, file: &Taken, content: &[u8]) -> Result<()> {
        let Some(at) = self.at(&file.path) else { return Ok(()) };
        let cannot = || format!("write {}", at.display());
        if let Ok(about) = at.symlink_metadata() {
            if about.is_dir() {
                self.notes.push(format!("{} is left out: it is a folder in the image", file.path));
                return Ok(());
            }
            let is_same = match &file.target {
                Some(target) => fs::read_link(&at).is_ok_and(|has| has == Path::new(target)),
                None => {
                    about.is_file()
                        && about.mode() & 0o7777 == file.mode
                        && about.len() == file.len
                        && fs::read(&at).is_ok_and(|has| has == content)
                }
            };
            if is_same {
                return Ok(());
            }
            fs::remove_file(&at).cannot(cannot)?;
        }
        self.folders(model, &file.path)?;
        match &file.target {
            Some(target) => symlink(target, &at).cannot(cannot)?,
            None => {
                let mut new = File::create_new(&at).cannot(cannot)?;
                new.set_permissions(fs::Permissions::from_mode(0o600))
                    .and_then(|()| new.write_all(content))
                    .cannot(cannot)?;
                self.give(&file.path, &at, &file.owner, file.mode)?;
            }
        }
        self.changed.insert(file.path.clone());
        Ok(())
    }

    /// The folders above a path, as they are on the host.
    fn folders(&mut self, model: &Model, path: &str) -> Result<()> {
        let mut above: Vec<&Path> = Path::new(path).ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            let at = self.root.join(folder.strip_prefix("/").unwrap_or(folder));
            if at.is_dir() {
                continue;
            }
            fs::create_dir(&at).cannot(|| format!("make the folder {}", at.display()))?;
            let shown = folder.display().to_string();
            if let Some((mode, owner)) = model.folders.get(&shown) {
                self.give(&shown, &at, owner, *mode)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
