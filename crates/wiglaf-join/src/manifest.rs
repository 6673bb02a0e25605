//! What was changed on a host, and what was there before: enough to undo it, and to see whether somebody else
//! has changed it since.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::digest::{Context as Digest, SHA256};
use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};

use crate::packages::Changed;

/// A user's manifest, below the home.
pub(crate) const USERS: &str = ".local/share/wiglaf/manifest.json";
/// The manifest of what takes root.
pub(crate) const ROOTS: &str = "/var/lib/wiglaf/manifest.json";
/// The manifest of batch jobs on a host, which takes root.
pub(crate) const BATCH: &str = "/var/lib/wiglaf/batch/manifest.json";
/// The manifest of what watching takes, which comes and goes by itself.
pub(crate) const EXTRA: &str = "/var/lib/wiglaf/monitor.json";
/// Next to a manifest: what was overwritten, by its digest.
pub(crate) const SAVED: &str = "saved";
/// Next to a manifest: files of packages in the versions that were there before.
pub(crate) const DEBS: &str = "debs";
/// The form that this program reads and writes.
const FORM: u32 = 1;

/// All that was changed on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    form: u32,
    /// Tells clusters apart, whatever they are called.
    pub(crate) cluster: String,
    /// What the cluster is called.
    pub(crate) name: String,
    /// The user and the host that it was joined from.
    pub(crate) by: String,
    /// The version of Wiglaf that was installed.
    pub(crate) version: String,
    /// Files, links and blocks, in the order in which they were changed.
    pub(crate) entries: Vec<Entry>,
    /// Folders that were made, outer ones first, or that its jobs may make. They go when they are empty.
    pub(crate) folders: Vec<PathBuf>,
    /// Folders that jobs fill and that are Wiglaf's alone.
    pub(crate) caches: Vec<PathBuf>,
    /// Whether systemd's units were enabled that were not before.
    pub(crate) has_units: bool,
    /// Debian's packages that were installed after the files and were not there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) late_packages: Vec<String>,
    /// Services that run for us: those that are not systemd's own business go with those packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) systemd: Vec<String>,
    /// Debian packages that were installed and were not there before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) packages: Vec<String>,
    /// Debian packages whose versions were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) versions: Vec<Changed>,
    /// What was started, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) services: Vec<Started>,
}

/// Something that was started, and how it is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Started {
    pub(crate) name: String,
    /// A script of sh.
    pub(crate) stop: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Entry {
    /// A file or a link that is now ours.
    Path { path: PathBuf, before: Seen, after: Seen },
    /// Some lines in somebody else's file.
    Block { path: PathBuf, text: String, created: bool },
}

impl Entry {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Path { path, .. } | Self::Block { path, .. } => path,
        }
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub(crate) enum Seen {
    Nothing,
    File {
        mode: u32,
        sha256: String,
    },
    Link {
        target: PathBuf,
    },
    /// A folder, a socket: nothing that this program replaces.
    Other,
}

impl Seen {
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let about = match fs::symlink_metadata(path) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(error) => return Err(error),
        };
        if about.is_symlink() {
            return Ok(Self::Link { target: fs::read_link(path)? });
        }
        match about.is_file() {
            true => Ok(Self::File {
                mode: about.permissions().mode() & 0o7777,
                sha256: sha256(File::open(path)?)?,
            }),
            false => Ok(Self::Other),
        }
    }
}

/// The SHA-256 of what is read, as `sha256sum` prints it.
pub(crate) fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut digest = Digest::new(&SHA256);
    let mut piece = vec![0; 256 << 10];
    loop {
        match from.read(&mut piece)? {
            0 => break,
            count => digest.update(&piece[..count]),
        }
    }
    Ok(digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Manifest {
    pub(crate) fn new(cluster: &str, name: &str, by: &str) -> Self {
        Self {
            form: FORM,
            cluster: cluster.to_owned(),
            name: name.to_owned(),
            by: by.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            entries: Vec::new(),
            folders: Vec::new(),
            caches: Vec::new(),
            has_units: false,
            late_packages: Vec::new(),
            systemd: Vec::new(),
            packages: Vec::new(),
            versions: Vec::new(),
            services: Vec::new(),
        }
    }

    /// Reads a manifest's text.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let wrong = |why: String| {
            Error::new(format!(
                "{} is damaged ({why}): what Wiglaf changed there cannot be undone by itself; remove the \
                 file when you have done so",
                path.display()
            ))
        };
        let read: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match read.form == FORM {
            true => Ok(read),
            false => Err(wrong(format!("form {}, and this Wiglaf knows {FORM}", read.form))),
        }
    }

    /// The manifest at that path, if there is one.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).cannot(|| format!("read {}", path.display())),
        }
    }

    /// Its text: one line, which the look at a host reads.
    pub(crate) fn text(&self) -> Result<String> {
        serde_json::to_string(self).map(|text| text + "\n").cannot(|| "write a manifest".to_owned())
    }

    pub(crate) fn entry(&self, path: &Path) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.path() == path)
    }

    /// Notes a change in place of an earlier one of that path.
    pub(crate) fn note(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|known| known.path() == entry.path()) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_sha256sum() {
        let sum = sha256(&b"abc"[..]).unwrap();
        assert_eq!(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn manifest_is_read_back_and_damage_is_told() {
        let mut manifest = Manifest::new("00ff", "lab", "ann@pc1");
        let block = Entry::Block { path: "/a".into(), text: "x\n".to_owned(), created: true };
        manifest.note(block.clone());
        manifest.note(block);
        let text = manifest.text().unwrap();
        assert_eq!((manifest.entries.len(), text.matches('\n').count()), (1, 1));
        assert_eq!(Manifest::parse(&text, Path::new("m")), Ok(manifest));
        for text in ["", "{}", &text.replace("\"form\":1", "\"form\":2")] {
            let error = Manifest::parse(text, Path::new("m.json")).unwrap_err().to_string();
            assert!(error.starts_with("m.json is damaged"), "{error}");
        }
    }
}
