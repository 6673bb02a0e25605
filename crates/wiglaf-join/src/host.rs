//! What happens on a host that joins or leaves: the hidden command `wiglaf join-host`, which the joining
//! `wiglaf` sends there and asks on standard input.
//!
//! Everything that may fail for want of space or of permission is done beside the files that are there; these
//! are replaced at the end, and put back if even that fails.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink,
};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};

use crate::manifest::{DEBS, Entry, Manifest, SAVED, Seen, Started, sha256};
use crate::packages::{self, Version};

/// Longest request, in bytes, without the files' contents.
const REQUEST_LEN_MAX: usize = 16 << 20;
/// The helper's units of systemd, as `make install` calls them.
const UNITS: [&str; 2] = ["wiglaf-helper.socket", "wiglaf-helper.service"];

/// What is to be done on the host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) manifest: PathBuf,
    pub(crate) action: Action,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Action {
    Apply(Box<Apply>),
    Undo,
}

/// Changes, all of which are made or none. The contents of the files follow the request, in their order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Apply {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) by: String,
    pub(crate) steps: Vec<Step>,
    /// Folders that jobs may make: noted where they are not there yet.
    pub(crate) may_make: Vec<PathBuf>,
    pub(crate) caches: Vec<PathBuf>,
    /// Whether the helper's units are to run.
    pub(crate) units: bool,
    /// Debian's packages that are to be there, installed after the files: what they start finds its settings.
    #[serde(default)]
    pub(crate) late_packages: Vec<String>,
    /// Services that are to run from now on.
    #[serde(default)]
    pub(crate) systemd: Vec<String>,
    /// Whether shared libraries come in folders that the loader's cache covers.
    pub(crate) ldconfig: bool,
    /// Debian packages that are to be there, installed first.
    pub(crate) packages: Vec<String>,
    /// Length of Wiglaf's own Debian package, which follows the request before all other contents.
    #[serde(default)]
    pub(crate) deb_len: Option<u64>,
    /// Debian packages that are to have these versions, installed first.
    #[serde(default)]
    pub(crate) versions: Vec<Version>,
    /// Debian packages that go, with those.
    #[serde(default)]
    pub(crate) unwanted: Vec<String>,
    /// What is to run, started last and in this order.
    pub(crate) services: Vec<Service>,
}

/// Something that runs from now on: scripts of sh that start it, where it does not run, and that end it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// What it is called.
    pub name: String,
    /// Starts it, and fails with a last line that says why. It may run already.
    pub start: String,
    /// Ends it.
    pub stop: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Step {
    File {
        path: PathBuf,
        mode: u32,
        content: Content,
        /// `user:group`, where it is not that of who writes.
        #[serde(default)]
        owner: Option<String>,
    },
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    /// A folder that is made where it is missing.
    Folder {
        path: PathBuf,
        mode: u32,
        owner: Option<String>,
    },
    /// A file or a link that goes.
    Gone {
        path: PathBuf,
    },
    /// Lines in a file that is somebody else's: at its top, or at its end. None: the lines go.
    Block {
        path: PathBuf,
        text: String,
        is_at_end: bool,
        mode: u32,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Content {
    /// That many bytes of the input.
    Sent(u64),
    /// The running program's.
    Program,
}

/// How it went.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Why nothing was changed.
    pub(crate) error: Option<String>,
    /// What was left as it is, and why: a sentence each.
    pub(crate) kept: Vec<String>,
}

/// The hidden command `wiglaf join-host`: does what standard input asks for, and answers on standard output.
///
/// # Errors
/// When the request is none, or nobody takes the answer.
pub fn main() -> Result<()> {
    let answer = serve(&mut io::stdin().lock())
        .unwrap_or_else(|error| Answer { error: Some(error.to_string()), ..Answer::default() });
    let text = serde_json::to_string(&answer).cannot(|| "write the answer".to_owned())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).cannot(|| "answer".to_owned())
}

fn serve(input: &mut impl BufRead) -> Result<Answer> {
    let request = read_request(input)?;
    match request.action {
        Action::Apply(apply) => {
            let mut changes = Changes::default();
            let done = changes.make(&request.manifest, &apply, input);
            if done.is_err() {
                changes.revert();
            }
            done.map(|()| Answer { error: None, kept: changes.notes })
        }
        Action::Undo => undo(&request.manifest),
    }
}

fn read_request(input: &mut impl BufRead) -> Result<Request> {
    let none = |why: &str| {
        Error::new(format!("`wiglaf join-host` was asked for nothing it knows ({why})"))
    };
    let mut line = String::new();
    input.take(20).read_line(&mut line).map_err(|error| none(&error.to_string()))?;
    let len: usize = line.trim().parse().map_err(|_| none("no length"))?;
    if len > REQUEST_LEN_MAX {
        return Err(none("too long"));
    }
    let mut text = vec![0; len];
    input.read_exact(&mut text).map_err(|error| none(&error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| none(&error.to_string()))
}

/// Writes a request as [`main`] reads it.
pub(crate) fn write_request(request: &Request, to: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_vec(request)?;
    writeln!(to, "{}", text.len())?;
    to.write_all(&text)
}

/// Changes that are being made.
#[derive(Debug, Default)]
struct Changes {
    /// Folders made, outer ones first.
    folders: Vec<PathBuf>,
    /// Files beside those that they will replace.
    staged: Vec<(PathBuf, PathBuf)>,
    /// What was replaced, and where it is for now.
    replaced: Vec<(PathBuf, Option<PathBuf>)>,
    /// Copies for the manifest.
    saved: Vec<PathBuf>,
    has_enabled: bool,
    /// Packages that were not there before.
    packages: Vec<String>,
    /// What is ended again: it did not run before.
    started: Vec<Started>,
    /// Packages and services that are new here.
    late_packages: Vec<String>,
    systemd: Vec<String>,
    /// Files and links that go.
    gone: Vec<PathBuf>,
    /// Versions of packages before and now, and where files of the earlier ones are.
    versions: Vec<packages::Changed>,
    debs: PathBuf,
    /// What cannot be undone.
    notes: Vec<String>,
}

impl Changes {
    fn make(&mut self, path: &Path, apply: &Apply, input: &mut impl Read) -> Result<()> {
        let known = Manifest::load(path)?;
        if let Some(known) = known.as_ref().filter(|known| known.cluster != apply.cluster) {
            return Err(other_cluster(known));
        }
        let mut manifest =
            known.unwrap_or_else(|| Manifest::new(&apply.cluster, &apply.name, &apply.by));
        manifest.version = env!("CARGO_PKG_VERSION").to_owned();
        let absent = apply.may_make.iter().filter(|folder| !folder.exists());
        let absent: Vec<PathBuf> =
            absent.filter(|folder| !manifest.folders.contains(folder)).cloned().collect();
        self.packages = packages::install(&apply.packages)?;
        if let Some(len) = apply.deb_len {
            let new = self.install_deb(&path.with_file_name("wiglaf.deb"), len, input)?;
            self.packages.extend(new);
        }
        manifest.packages.extend(self.packages.iter().cloned());
        self.folder_of(path)?;
        self.debs = path.with_file_name(DEBS);
        if !apply.versions.is_empty() || !apply.unwanted.is_empty() {
            let changed = packages::change(&apply.versions, &apply.unwanted, &self.debs)?;
            (self.versions, self.notes) = changed;
            manifest.versions.extend(self.versions.iter().cloned());
        }
        for step in &apply.steps {
            match step {
                Step::File { path: at, mode, content, owner } => {
                    let new = self.stage_file(at, *mode, content, input)?;
                    if let Some(owner) = owner {
                        let staged = beside(at, "new");
                        own(&staged, owner)?;
                        // A new owner takes away bits of the mode.
                        fs::set_permissions(&staged, fs::Permissions::from_mode(*mode))
                            .cannot(|| format!("write {}", at.display()))?;
                    }
                    self.note_path(path, &mut manifest, at, new)?;
                }
                Step::Folder { path: at, mode, owner } => {
                    if !at.exists() {
                        self.folder_of(&at.join("x"))?;
                        if let Some(owner) = owner {
                            own(at, owner)?;
                        }
                        fs::set_permissions(at, fs::Permissions::from_mode(*mode))
                            .cannot(|| format!("make the folder {}", at.display()))?;
                    }
                }
                Step::Gone { path: at } => {
                    self.note_path(path, &mut manifest, at, Seen::Nothing)?;
                    if manifest.entry(at).is_some() {
                        self.gone.push(at.clone());
                    }
                }
                Step::Link { path: at, target } => {
                    self.folder_of(at)?;
                    let new = beside(at, "new");
                    let _ = fs::remove_file(&new);
                    symlink(target, &new).cannot(|| format!("make the link {}", at.display()))?;
                    self.staged.push((new, at.clone()));
                    let new = Seen::Link { target: target.clone() };
                    self.note_path(path, &mut manifest, at, new)?;
                }
                Step::Block { path: at, text, is_at_end, mode } => {
                    self.stage_block(&mut manifest, at, text, *is_at_end, *mode)?;
                }
            }
        }
        manifest.folders.extend(self.folders.iter().cloned());
        // Jobs make them inside of what was there, so they are the first to go.
        manifest.folders.extend(absent);
        for cache in &apply.caches {
            if !manifest.caches.contains(cache) {
                manifest.caches.push(cache.clone());
            }
        }
        // Somebody may have disabled them since they were enabled for the manifest.
        let wants_units = apply.units && !are_enabled();
        manifest.has_units |= wants_units;
        let known: Vec<String> =
            manifest.services.iter().map(|started| started.name.clone()).collect();
        manifest.services.retain(|started| apply.services.iter().all(|s| s.name != started.name));
        let started =
            |service: &Service| Started { name: service.name.clone(), stop: service.stop.clone() };
        manifest.services.extend(apply.services.iter().map(started));
        let missing = apply.late_packages.iter().filter(|name| !is_installed(name));
        let missing: Vec<String> = missing.cloned().collect();
        manifest.late_packages.extend(missing.clone());
        let new = apply.systemd.iter().filter(|name| !manifest.systemd.contains(name));
        let new: Vec<String> = new.cloned().collect();
        manifest.systemd.extend(new.clone());
        let text = manifest.text()?;
        self.stage(path, 0o644, &mut text.as_bytes())?;
        self.replace()?;
        if apply.ldconfig {
            let _ = run("ldconfig", &[]);
        }
        if apply.units {
            run("systemctl", &["daemon-reload"])?;
            self.has_enabled = wants_units;
            match wants_units {
                true => run("systemctl", &[&["enable", "--now"], &UNITS[..]].concat())?,
                false => run("systemctl", &[&["try-restart"], &UNITS[..]].concat())?,
            }
        }
        for service in &apply.services {
            if !known.contains(&service.name) {
                self.started.push(started(service));
            }
            run("sh", &["-c", &service.start])
                .map_err(|error| Error::new(format!("{} does not start: {error}", service.name)))?;
        }
        self.install(&missing)?;
        self.start(&apply.systemd, new)?;
        self.forget();
        Ok(())
    }

    /// Has Wiglaf's own package installed, from a file for a moment. Says which packages are new.
    fn install_deb(&mut self, deb: &Path, len: u64, input: &mut impl Read) -> Result<Vec<String>> {
        self.folder_of(deb)?;
        let cannot = || format!("write {}", deb.display());
        let mut part = input.by_ref().take(len);
        let written = File::create(deb).and_then(|mut file| {
            io::copy(&mut part, &mut file)?;
            // apt reads it as a user of its own.
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            file.sync_all()
        });
        let done = match written.cannot(cannot) {
            Ok(()) if part.limit() > 0 => {
                Err(Error::new("the connection ended before the package had come"))
            }
            Ok(()) => packages::install_file(deb),
            Err(error) => Err(error),
        };
        let _ = fs::remove_file(deb);
        done
    }

    fn install(&mut self, missing: &[String]) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        // Also where it fails half-way.
        self.late_packages = missing.to_vec();
        apt(&["install", "--no-install-recommends"], missing)
    }

    fn start(&mut self, services: &[String], new: Vec<String>) -> Result<()> {
        if services.is_empty() {
            return Ok(());
        }
        self.systemd = new;
        run("systemctl", &["daemon-reload"])?;
        for service in services {
            run("systemctl", &["enable", service])?;
            run("systemctl", &["restart", service])?;
        }
        Ok(())
    }

    /// Makes the folders above a file that are missing.
    fn folder_of(&mut self, path: &Path) -> Result<()> {
        let Some(folder) = path.parent() else { return Ok(()) };
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            // What root installs is for everybody; what users have in hidden folders is theirs.
            let mode = if folder.ends_with(".ssh") { 0o700 } else { 0o755 };
            DirBuilder::new()
                .mode(mode)
                .create(folder)
                .and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(mode)))
                .cannot(|| format!("make the folder {}", folder.display()))?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    /// Writes what will be at `path`, beside it.
    fn stage(&mut self, path: &Path, mode: u32, from: &mut impl Read) -> Result<String> {
        self.folder_of(path)?;
        let new = beside(path, "new");
        let _ = fs::remove_file(&new);
        let cannot = || format!("write {}", path.display());
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&new).cannot(cannot)?;
        self.staged.push((new.clone(), path.to_owned()));
        io::copy(from, &mut file).cannot(cannot)?;
        // Full disks of file servers say so here.
        file.sync_all().cannot(cannot)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).cannot(cannot)?;
        File::open(&new).and_then(sha256).cannot(cannot)
    }

    fn stage_file(
        &mut self,
        path: &Path,
        mode: u32,
        content: &Content,
        input: &mut impl Read,
    ) -> Result<Seen> {
        let sha256 = match content {
            Content::Program => {
                let exe = File::open("/proc/self/exe").cannot(|| "read this program".to_owned())?;
                self.stage(path, mode, &mut &exe)?
            }
            Content::Sent(len) => {
                let mut part = input.by_ref().take(*len);
                let sum = self.stage(path, mode, &mut part)?;
                if part.limit() > 0 {
                    return Err(Error::new("the connection ended before all files had come"));
                }
                sum
            }
        };
        Ok(Seen::File { mode, sha256 })
    }

    /// Notes what is at a path, and what will be.
    fn note_path(
        &mut self,
        manifest_path: &Path,
        manifest: &mut Manifest,
        path: &Path,
        after: Seen,
    ) -> Result<()> {
        let now = Seen::at(path).cannot(|| format!("read {}", path.display()))?;
        let before = match manifest.entry(path) {
            Some(Entry::Path { after: known, before, .. }) => {
                if now != *known && now != after && now != Seen::Nothing {
                    return Err(Error::new(format!(
                        "somebody has changed {} since this host joined; move it away, and join again",
                        path.display()
                    )));
                }
                before.clone()
            }
            _ if now == after => {
                // It was here before us, and stays.
                if let Some(at) = self.staged.iter().position(|(_, staged)| staged == path) {
                    let _ = fs::remove_file(self.staged.remove(at).0);
                }
                return Ok(());
            }
            _ => now,
        };
        match &before {
            Seen::Other => {
                return Err(Error::new(format!(
                    "{} is no file that Wiglaf may replace; move it away, and join again",
                    path.display()
                )));
            }
            Seen::File { sha256, .. } => self.save(manifest_path, path, sha256)?,
            Seen::Nothing | Seen::Link { .. } => {}
        }
        manifest.note(Entry::Path { path: path.to_owned(), before, after });
        Ok(())
    }

    /// Keeps a copy of a file that will be overwritten.
    fn save(&mut self, manifest_path: &Path, path: &Path, sha256: &str) -> Result<()> {
        let copy = saved(manifest_path, sha256);
        if copy.exists() {
            return Ok(());
        }
        self.folder_of(&copy)?;
        self.saved.push(copy.clone());
        fs::copy(path, &copy)
            .and_then(|_| own_as(&copy, path))
            .and_then(|()| fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)))
            .cannot(|| format!("keep a copy of {}", path.display()))
    }

    fn stage_block(
        &mut self,
        manifest: &mut Manifest,
        path: &Path,
        text: &str,
        is_at_end: bool,
        mode: u32,
    ) -> Result<()> {
        let cannot = || format!("read {}", path.display());
        let now = match fs::read_to_string(path) {
            Ok(now) => Some(now),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).cannot(cannot),
        };
        let (old, created) = match manifest.entry(path) {
            Some(Entry::Block { text, created, .. }) => (Some(text.clone()), *created),
            _ => (None, now.is_none()),
        };
        let now = now.unwrap_or_default();
        // Ours in its place; where somebody has taken it out, anew.
        let rest = old.map_or_else(|| now.clone(), |old| now.replacen(&old, "", 1));
        let text = match is_at_end && !rest.is_empty() && !rest.ends_with('\n') && !text.is_empty()
        {
            true => format!("\n{text}"),
            false => text.to_owned(),
        };
        let new = if is_at_end { format!("{rest}{text}") } else { format!("{text}{rest}") };
        let entry = Entry::Block { path: path.to_owned(), text, created };
        if new == now && manifest.entry(path).is_none_or(|known| *known == entry) {
            return Ok(());
        }
        // A file of dotfiles' managers may be a link: its target is meant.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mode = fs::metadata(&target).map_or(mode, |about| about.permissions().mode() & 0o7777);
        self.stage(&target, mode, &mut new.as_bytes())?;
        manifest.note(entry);
        Ok(())
    }

    /// Puts everything in its place.
    fn replace(&mut self) -> Result<()> {
        while let Some((new, path)) = self.staged.first().cloned() {
            let cannot = || format!("replace {}", path.display());
            let old = beside(&path, "old");
            let had = match fs::rename(&path, &old) {
                Ok(()) => Some(old),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error).cannot(cannot),
            };
            self.replaced.push((path.clone(), had));
            fs::rename(&new, &path).cannot(cannot)?;
            self.staged.remove(0);
        }
        for path in self.gone.drain(..) {
            let old = beside(&path, "old");
            fs::rename(&path, &old).cannot(|| format!("remove {}", path.display()))?;
            self.replaced.push((path, Some(old)));
        }
        Ok(())
    }

    /// All is well: what was replaced is no longer needed.
    fn forget(&mut self) {
        for (_, old) in self.replaced.drain(..) {
            let _ = old.map(fs::remove_file);
        }
    }

    fn revert(&mut self) {
        for started in self.started.drain(..).rev() {
            let _ = run("sh", &["-c", &started.stop]);
        }
        if self.has_enabled {
            let _ = run("systemctl", &[&["disable", "--now"], &UNITS[..]].concat());
        }
        for service in self.systemd.drain(..) {
            let _ = run("systemctl", &["disable", "--now", &service]);
        }
        if !self.late_packages.is_empty() {
            let _ = apt(&["purge"], &self.late_packages);
        }
        for (path, old) in self.replaced.drain(..).rev() {
            let _ = match old {
                Some(old) => fs::rename(old, path),
                None => fs::remove_file(path),
            };
        }
        for (new, _) in self.staged.drain(..) {
            let _ = fs::remove_file(new);
        }
        for copy in self.saved.drain(..) {
            let _ = fs::remove_file(copy);
        }
        for folder in self.folders.drain(..).rev() {
            let _ = fs::remove_dir(folder);
        }
        let _ = packages::purge(&std::mem::take(&mut self.packages));
        let _ = packages::restore(&std::mem::take(&mut self.versions), &self.debs);
        let _ = fs::remove_dir_all(&self.debs);
    }
}

fn other_cluster(known: &Manifest) -> Error {
    Error::new(format!(
        "it is in another cluster ({}, joined by {}); take it out there with `wiglaf leave` first",
        known.name, known.by
    ))
}

/// A name for a moment in the folder of `path`.
fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".wiglaf-{what}"));
    path.with_file_name(name)
}

/// Gives a file to the owner of another one.
fn own_as(path: &Path, other: &Path) -> io::Result<()> {
    let (now, wanted) = (fs::metadata(path)?, fs::metadata(other)?);
    match (now.uid(), now.gid()) == (wanted.uid(), wanted.gid()) {
        true => Ok(()),
        false => chown(path, Some(wanted.uid()), Some(wanted.gid())),
    }
}

fn own(path: &Path, owner: &str) -> Result<()> {
    run("chown", &["--no-dereference", owner, "--", &path.display().to_string()])
}

fn saved(manifest: &Path, sha256: &str) -> PathBuf {
    manifest.with_file_name(SAVED).join(sha256)
}

fn is_installed(package: &str) -> bool {
    let shown = Command::new("dpkg-query").args(["-W", "-f", "${Status}", package]).output();
    shown.is_ok_and(|shown| shown.stdout.ends_with(b"ok installed"))
}

/// Runs apt-get, which asks nothing.
fn apt(words: &[&str], packages: &[String]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args(["-y", "-qq"]);
    // What somebody has written into their configuration stays.
    command.args(["-o", "Dpkg::Options::=--force-confold"]).args(words).args(packages);
    let output = command.output().cannot(|| "start apt-get".to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| line.starts_with("E: "));
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!(
            "`apt-get {} {}` failed: {}",
            words[0],
            packages.join(" "),
            last.or_else(|| said.lines().last()).unwrap_or_default()
        ))),
    }
}

fn are_enabled() -> bool {
    let ask = Command::new("systemctl").args(["is-enabled", "--quiet", UNITS[1]]).status();
    ask.is_ok_and(|status| status.success())
}

pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    let output = Command::new(program).args(args).output().cannot(|| format!("start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    match output.status.success() {
        true => Ok(()),
        // A script says by itself what failed.
        false if program == "sh" => Err(Error::new(last)),
        false => Err(Error::new(format!("`{program} {}` failed: {last}", args.join(" ")))),
    }
}

/// Undoes what the manifest says, but for what somebody else has changed since.
fn undo(path: &Path) -> Result<Answer> {
    let mut answer = Answer::default();
    let Some(manifest) = Manifest::load(path)? else { return Ok(answer) };
    for started in manifest.services.iter().rev() {
        if let Err(error) = run("sh", &["-c", &started.stop]) {
            answer.kept.push(format!("{} still runs: {error}", started.name));
        }
    }
    if manifest.has_units
        && let Err(error) = run("systemctl", &[&["disable", "--now"], &UNITS[..]].concat())
    {
        answer.kept.push(format!("the helper's units stay enabled: {error}"));
    }
    for service in &manifest.systemd {
        if let Err(error) = run("systemctl", &["disable", "--now", service]) {
            answer.kept.push(format!("{service} may still run: {error}"));
        }
    }
    if !manifest.late_packages.is_empty() {
        // What they have collected is the user's.
        match apt(&["remove"], &manifest.late_packages) {
            Ok(()) => answer.kept.push(format!(
                "what {0} have collected and their settings stay; `apt-get purge {1}` removes them",
                manifest.late_packages.join(", "),
                manifest.late_packages.join(" ")
            )),
            Err(error) => answer.kept.push(format!("packages stay: {error}")),
        }
    }
    for entry in manifest.entries.iter().rev() {
        let outcome = match entry {
            Entry::Path { path: at, before, after } => undo_path(path, at, before, after),
            Entry::Block { path: at, text, created } => undo_block(at, text, *created),
        };
        let shown = entry.path().display();
        match outcome {
            Ok(None) => {}
            Ok(Some(why)) => answer.kept.push(why),
            Err(error) => answer.kept.push(format!("{shown} stays as it is: {error}")),
        }
    }
    for cache in &manifest.caches {
        let _ = fs::remove_dir_all(cache);
    }
    if manifest.has_units || !manifest.systemd.is_empty() {
        let _ = run("systemctl", &["daemon-reload"]);
    }
    let is_library = |entry: &Entry| entry.path().ends_with("lib/libwiglaf.so");
    if wiglaf_base::machine::is_root() && manifest.entries.iter().any(is_library) {
        let _ = run("ldconfig", &[]);
    }
    if let Err(error) = packages::purge(&manifest.packages) {
        answer.kept.push(error.to_string());
    }
    if !manifest.versions.is_empty() {
        let debs = path.with_file_name(DEBS);
        answer.kept.extend(packages::restore(&manifest.versions, &debs));
        let _ = fs::remove_dir_all(&debs);
    }
    fs::remove_file(path).cannot(|| format!("remove {}", path.display()))?;
    let _ = fs::remove_dir(path.with_file_name(SAVED));
    for folder in manifest.folders.iter().rev() {
        let _ = fs::remove_dir(folder);
    }
    Ok(answer)
}

/// Says why a file stays, if it does.
fn undo_path(
    manifest: &Path,
    path: &Path,
    before: &Seen,
    after: &Seen,
) -> io::Result<Option<String>> {
    let now = Seen::at(path)?;
    if now == *before {
        return Ok(None);
    }
    let copy = match before {
        Seen::File { sha256, .. } => Some(saved(manifest, sha256)),
        _ => None,
    };
    if now != *after && now != Seen::Nothing {
        let earlier = copy.map(|copy| format!("; what was there before is {}", copy.display()));
        return Ok(Some(format!(
            "{} stays: somebody has changed it since Wiglaf did{}",
            path.display(),
            earlier.unwrap_or_default()
        )));
    }
    let new = beside(path, "new");
    match before {
        Seen::Nothing => fs::remove_file(path).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?,
        Seen::Link { target } => {
            symlink(target, &new)?;
            fs::rename(&new, path)?;
        }
        Seen::File { mode, .. } => {
            let copy = copy.unwrap_or_default();
            fs::copy(&copy, &new)?;
            own_as(&new, &copy)?;
            fs::set_permissions(&new, fs::Permissions::from_mode(*mode))?;
            fs::rename(&new, path)?;
            fs::remove_file(&copy)?;
        }
        Seen::Other => {}
    }
    Ok(None)
}

fn undo_block(path: &Path, text: &str, created: bool) -> io::Result<Option<String>> {
    let now = match fs::read_to_string(path) {
        Ok(now) => now,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !text.is_empty() && !now.contains(text) {
        return Ok(Some(format!(
            "Wiglaf's lines in {} stay: somebody has changed them since Wiglaf did",
            path.display()
        )));
    }
    let rest = now.replacen(text, "", 1);
    if created && rest.is_empty() {
        return fs::remove_file(path).map(|()| None);
    }
    let target = fs::canonicalize(path)?;
    let new = beside(&target, "new");
    let mode = fs::metadata(&target)?.permissions();
    fs::write(&new, rest)?;
    fs::set_permissions(&new, mode)?;
    fs::rename(&new, &target)?;
    Ok(None)
}

#[cfg(test)]
mod tests;
