//! Hosts that have joined, for what changes them further: looked at, asked, changed with a manifest of its own
//! that `wiglaf leave` undoes too.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{machine, random};
use wiglaf_cluster::hosts::Hosts;

use crate::ask::ask;
use crate::facts::{Facts, Privilege};
pub use crate::host::Service;
use crate::host::{Action, Apply, Content, Request, Step};
use crate::join::look_all;
use crate::manifest::{BATCH, Entry, Manifest, Seen, sha256};
use crate::remote::{self, Remote, Shell};
use crate::sync::{self, Cluster, Member, Probe};
use crate::tree::{Bytes, Tree};

/// A host of the cluster that was looked at.
#[derive(Debug)]
pub struct Joined {
    member: Member,
    address: Option<Ipv4Addr>,
    /// This build's program there.
    program: Option<PathBuf>,
    cluster: Cluster,
}

/// A file that is to be there, root's.
#[derive(Debug, Clone)]
pub struct NewFile {
    /// Where.
    pub path: PathBuf,
    /// With which mode.
    pub mode: u32,
    /// What it contains. It travels on ssh's standard input alone.
    pub bytes: Vec<u8>,
}

/// Lines of ours at the top of a file that is somebody else's.
#[derive(Debug, Clone)]
pub struct Lines {
    /// The file.
    pub path: PathBuf,
    /// What stands there from now on; nothing: what stood there goes.
    pub text: String,
}

/// What is to be changed on a host: all of it, or nothing.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Debian packages, installed first where they are missing.
    pub packages: Vec<String>,
    /// Files, written then.
    pub files: Vec<NewFile>,
    /// Lines in others' files, written after those.
    pub lines: Vec<Lines>,
    /// What is started in the end, in this order.
    pub services: Vec<Service>,
    /// Folders that are filled from now on, and go whole when all is undone.
    pub caches: Vec<PathBuf>,
}

/// Looks at all hosts of a cluster at once; changes nothing.
///
/// # Errors
/// When this host cannot look at any. Why one cannot be looked at is in its place.
pub fn look(hosts: &Hosts) -> Result<Vec<Result<Joined>>> {
    let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
    let tree = Tree::find(&exe)?;
    let prefix = tree.prefix.clone().unwrap_or_else(|| PathBuf::from("/usr/local"));
    let remote = |spec: &wiglaf_cluster::hosts::HostSpec| Remote {
        name: spec.name.clone(),
        target: spec.target.clone(),
    };
    let remotes: Vec<Remote> = hosts.nodes.iter().map(remote).collect();
    let looked = look_all(&remotes, &prefix, &Probe::new()?);
    let user = std::env::var("USER").unwrap_or_default();
    let id = match sync::own_manifest()? {
        Some(manifest) => manifest.cluster,
        // A cluster of this host alone has none.
        None => looked
            .iter()
            .flatten()
            .find_map(|facts| facts.batch_manifest.as_ref())
            .map_or_else(random::key, |manifest| Ok(manifest.cluster.clone()))?,
    };
    let by = format!("{user}@{}", machine::name());
    let cluster = Cluster { id, name: hosts.name.clone(), by };
    let all = remotes.into_iter().zip(looked).zip(&hosts.nodes).map(|((remote, facts), spec)| {
        let member = Member { remote, facts: facts? };
        Ok(Joined {
            address: spec.address.or_else(|| member.facts.address_in(hosts.network.data)),
            program: member.program(&tree, &prefix),
            cluster: cluster.clone(),
            member,
        })
    });
    Ok(all.collect())
}

impl Joined {
    /// What the cluster calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.member.remote.name
    }

    /// What it calls itself.
    #[must_use]
    pub fn machine(&self) -> &str {
        &self.member.facts.machine
    }

    /// How a user calls it in `ssh ...`.
    #[must_use]
    pub fn login(&self) -> String {
        self.member.remote.target.login()
    }

    /// Whether it is the host that asks.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.member.remote.target.is_here
    }

    /// Its address in the data network.
    ///
    /// # Errors
    /// When it has none.
    pub fn address(&self) -> Result<Ipv4Addr> {
        self.address.ok_or_else(|| {
            Error::new(format!(
                "{0} has no address in the data network; see `wiglaf check -w {0}`",
                self.name()
            ))
        })
    }

    /// The user's number there.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.member.facts.uid
    }

    /// Seconds that its clock is ahead.
    #[must_use]
    pub fn clock_ahead_s(&self) -> i64 {
        self.member.facts.clock_ahead_s
    }

    /// Whether the user may become root there without a password.
    #[must_use]
    pub fn has_root(&self) -> bool {
        self.member.facts.privilege != Privilege::None
    }

    /// Where this build of Wiglaf is there, for everybody.
    ///
    /// # Errors
    /// A sentence that says how it gets there.
    pub fn program(&self) -> Result<&Path> {
        let facts = &self.member.facts;
        let name = self.name();
        let home = &facts.home;
        match &self.program {
            Some(program) if !program.starts_with(home) => Ok(program),
            Some(program) => Err(Error::new(format!(
                "{name} has Wiglaf in {}, and batch jobs are root's to start; install it for everybody: \
                 `wiglaf leave {name}`, then `wiglaf join {name}` without --copy",
                program.display()
            ))),
            None => Err(Error::new(format!(
                "{name} has not joined with this build of Wiglaf; run `wiglaf join {name}` first"
            ))),
        }
    }

    /// What a script of sh prints there. The input comes on its standard input.
    ///
    /// # Errors
    /// When it fails; the sentence is its last one.
    pub fn run(&self, script: &str, as_root: bool, input: &[u8]) -> Result<String> {
        self.member
            .remote
            .run(&self.script(script, as_root), |to: &mut dyn Write| to.write_all(input))
    }

    /// For scripts that root runs there.
    pub(crate) fn shell(&self) -> Shell {
        Shell::new(self.member.remote.clone(), self.as_root())
    }

    fn script(&self, script: &str, as_root: bool) -> String {
        remote::script(script, as_root && self.as_root())
    }

    /// The digest of a file as it was written there, if it was.
    #[must_use]
    pub fn written(&self, path: &Path) -> Option<&str> {
        match self.manifest()?.entry(path)? {
            Entry::Path { after: Seen::File { sha256, .. }, .. } => Some(sha256),
            _ => None,
        }
    }

    /// The lines that were written at the top of somebody else's file there.
    #[must_use]
    pub fn lines(&self, path: &Path) -> &str {
        match self.manifest().and_then(|manifest| manifest.entry(path)) {
            Some(Entry::Block { text, .. }) => text,
            _ => "",
        }
    }

    /// The name that the user has there.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.member.facts.user
    }

    /// Whether anything was changed there already.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.manifest().is_some()
    }

    /// Whether another cluster has changed it, and whose that is.
    #[must_use]
    pub fn others(&self) -> Option<String> {
        let manifest = self.member.facts.batch_manifest.as_ref()?;
        let is_others = manifest.cluster != self.cluster.id;
        is_others.then(|| format!("{}, set up by {}", manifest.name, manifest.by))
    }

    /// How many files, packages and daemons would be taken back.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        self.manifest().map_or([0; 3], |manifest| {
            [manifest.entries.len(), manifest.packages.len(), manifest.services.len()]
        })
    }

    fn manifest(&self) -> Option<&Manifest> {
        self.member.facts.batch_manifest.as_ref().filter(|known| known.cluster == self.cluster.id)
    }

    fn as_root(&self) -> bool {
        self.member.facts.privilege == Privilege::Sudo
    }

    /// Changes the host: everything, or nothing.
    ///
    /// # Errors
    /// What failed; the host is as it was then.
    pub fn apply(&self, change: &Change) -> Result<()> {
        let step = |file: &NewFile| Step::File {
            path: file.path.clone(),
            mode: file.mode,
            content: Content::Sent(file.bytes.len() as u64),
            owner: None,
        };
        let block = |lines: &Lines| Step::Block {
            path: lines.path.clone(),
            text: lines.text.clone(),
            is_at_end: false,
            mode: 0o644,
        };
        let steps = change.files.iter().map(step).chain(change.lines.iter().map(block));
        let mut apply = self.cluster.apply(steps.collect());
        apply.packages.clone_from(&change.packages);
        apply.services.clone_from(&change.services);
        apply.caches.clone_from(&change.caches);
        let contents: Vec<Bytes> =
            change.files.iter().map(|file| Bytes::Text(file.bytes.clone())).collect();
        self.ask(BATCH.into(), Action::Apply(Box::new(apply)), &contents).map(drop)
    }

    /// Has root do something there. Says what stays, a sentence each.
    pub(crate) fn ask(
        &self,
        manifest: PathBuf,
        action: Action,
        contents: &[Bytes],
    ) -> Result<Vec<String>> {
        let request = Request { manifest, action };
        let (remote, program) = (&self.member.remote, self.program.as_deref());
        let answer = ask(remote, self.as_root(), program, &request, contents)?;
        Ok(answer.kept.into_iter().map(|why| format!("{}: {why}", self.name())).collect())
    }

    /// Changes, for the manifest, in the name of this cluster.
    pub(crate) fn change(&self, steps: Vec<Step>) -> Apply {
        self.cluster.apply(steps)
    }

    /// Takes back everything. Says what stays, a sentence each.
    ///
    /// # Errors
    /// When nothing could be taken back.
    pub fn undo(&self) -> Result<Vec<String>> {
        self.ask(BATCH.into(), Action::Undo, &[])
    }
}

/// Whether batch jobs were set up on this host.
#[must_use]
pub fn has_batch() -> bool {
    Path::new(BATCH).exists()
}

/// The SHA-256 of bytes, as `sha256sum` prints it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    // Reading memory fails for nobody.
    sha256(bytes).unwrap_or_default()
}

/// What a host says of itself, for messages.
#[must_use]
pub fn release(host: &Joined) -> &str {
    let facts: &Facts = &host.member.facts;
    &facts.release
}
