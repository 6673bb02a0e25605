//! What a tuner has changed, where the one after it finds it: in two files, of which the newer whole one counts.
//! They are in memory (/run): a setting of a card does not outlive the machine's start either.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};
use wiglaf_netlink::Card;

use super::Held;
use crate::tuning::Wants;

/// Longest file that is read, in bytes.
const LEN_MAX: u64 = 1 << 20;

/// What somebody wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) uid: u32,
    pub(crate) wants: Wants,
    pub(crate) cards: Vec<Card>,
}

/// What was changed, and what is wanted until it is undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) held: Vec<Held>,
    pub(crate) kept: Vec<Kept>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    number: u64,
    state: State,
}

/// The two files, open, and what was written last.
#[derive(Debug)]
pub(crate) struct Store {
    files: [File; 2],
    number: u64,
    last: State,
}

impl Store {
    /// Opens them in a folder, which is made. It must be this process's own, or root's, and nobody else's to write.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(why),
            _ => {}
        }
        let own = rustix::process::geteuid().as_raw();
        let found = fs::symlink_metadata(folder)?;
        let resolved = fs::metadata(folder)?;
        let is_ours = |meta: &fs::Metadata| {
            (meta.uid() == own || meta.uid() == 0) && meta.mode() & 0o022 == 0
        };
        // systemd has a link of root's there, to a folder of the service's user.
        let is_link = found.file_type().is_symlink() && found.uid() == 0;
        if !(is_link || is_ours(&found)) || !is_ours(&resolved) {
            let shown = folder.display();
            return Err(io::Error::other(format!("others could have written to {shown}")));
        }
        let open = |name: &str| {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(folder.join(name))
        };
        let files = [open("a")?, open("b")?];
        // The one before this may still be setting cards back.
        rustix::fs::flock(&files[0], rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Self { files, number: 0, last: State::default() })
    }

    /// What was written last; nothing, where nothing whole is there.
    pub(crate) fn load(&mut self) -> State {
        let mut newest = Written { number: 0, state: State::default() };
        for file in &mut self.files {
            let mut text = String::new();
            let read = file.rewind().and_then(|()| file.take(LEN_MAX).read_to_string(&mut text));
            // The end of the line is written last.
            let Some(line) = read.ok().and_then(|_| text.strip_suffix('\n')) else { continue };
            let Ok(written) = serde_json::from_str::<Written>(line) else { continue };
            if written.number > newest.number {
                newest = written;
            }
        }
        (self.number, self.last) = (newest.number, newest.state.clone());
        newest.state
    }

    /// Writes it to the older file.
    pub(crate) fn save(&mut self, state: State) -> io::Result<()> {
        if state == self.last {
            return Ok(());
        }
        let number = self.number + 1;
        let file = &mut self.files[(number % 2) as usize];
        let mut line = serde_json::to_vec(&Written { number, state: state.clone() })?;
        line.push(b'\n');
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&line)?;
        (self.number, self.last) = (number, state);
        Ok(())
    }
}
