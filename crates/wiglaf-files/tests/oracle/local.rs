//! Calls by chance, and what the local file system makes of them by plain system calls.

use std::os::fd::OwnedFd;
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use tempfile::TempDir;
use wiglaf_files::Attributes;

/// Few names, so that calls meet; some are not as simple as they look.
pub(crate) const NAMES: [&str; 14] =
    ["a", "b", "c", "d", "d/a", "d/b", "d/e", "a/x", ".", "d/", "a/", "./b", "c/d", ""];
pub(crate) const FLAGS: [i32; 12] = [
    libc::O_RDONLY,
    libc::O_WRONLY,
    libc::O_RDWR,
    libc::O_RDWR | libc::O_CREAT,
    libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
    libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
    libc::O_RDWR | libc::O_CREAT | libc::O_APPEND,
    libc::O_WRONLY | libc::O_APPEND,
    libc::O_RDONLY | libc::O_DIRECTORY,
    libc::O_RDONLY | libc::O_NOFOLLOW,
    libc::O_RDWR | libc::O_DIRECTORY | libc::O_CREAT,
    libc::O_RDONLY | libc::O_TRUNC,
];

#[derive(Debug, Clone)]
pub(crate) enum Call {
    Open(usize, usize),
    Close(usize),
    Read(usize, usize),
    Write(usize, usize, u8),
    ReadAt(usize, usize, u64),
    WriteAt(usize, usize, u64, u8),
    Seek(usize, u8, i64),
    Size(usize),
    SetSize(usize, u64),
    SetSizeOf(usize, u64),
    Stat(usize, bool),
    Unlink(usize),
    RemoveDir(usize),
    MakeDir(usize),
    Rename(usize, usize),
    HardLink(usize, usize),
    MakeLink(usize, usize),
    ReadLink(usize),
    SetMode(usize, u32),
    List(usize),
    Sync(usize),
}

impl Call {
    /// Whether it opens a file to be appended to.
    #[allow(dead_code, reason = "one of the two that have this file needs it")]
    pub(crate) fn appends(&self) -> bool {
        matches!(self, Call::Open(_, flags) if FLAGS[*flags] & libc::O_APPEND != 0)
    }
}

/// One of them.
pub(crate) fn call() -> impl Strategy<Value = Call> {
    let name = || 0..NAMES.len();
    let file = || 0..4usize;
    // Across all ways that content travels: one frame, eager, inline, bulk, several.
    let len = || prop_oneof![3 => 0..200usize, 2 => 3_000..40_000usize, 1 => 200_000..600_000usize];
    let at = || prop_oneof![0..1_000u64, 0..100_000u64];
    prop_oneof![
        6 => (name(), 0..FLAGS.len()).prop_map(|(n, f)| Call::Open(n, f)),
        2 => file().prop_map(Call::Close),
        4 => (file(), len()).prop_map(|(f, l)| Call::Read(f, l)),
        4 => (file(), len(), any::<u8>()).prop_map(|(f, l, b)| Call::Write(f, l, b)),
        2 => (file(), len(), at()).prop_map(|(f, l, a)| Call::ReadAt(f, l, a)),
        2 => (file(), len(), at(), any::<u8>()).prop_map(|(f, l, a, b)| Call::WriteAt(f, l, a, b)),
        2 => (file(), 0..3u8, -2_000..2_000i64).prop_map(|(f, w, b)| Call::Seek(f, w, b)),
        1 => file().prop_map(Call::Size),
        1 => (file(), at()).prop_map(|(f, s)| Call::SetSize(f, s)),
        1 => (name(), at()).prop_map(|(n, s)| Call::SetSizeOf(n, s)),
        2 => (name(), any::<bool>()).prop_map(|(n, f)| Call::Stat(n, f)),
        2 => name().prop_map(Call::Unlink),
        1 => name().prop_map(Call::RemoveDir),
        2 => name().prop_map(Call::MakeDir),
        2 => (name(), name()).prop_map(|(a, b)| Call::Rename(a, b)),
        1 => (name(), name()).prop_map(|(a, b)| Call::HardLink(a, b)),
        1 => (name(), name()).prop_map(|(a, b)| Call::MakeLink(a, b)),
        1 => name().prop_map(Call::ReadLink),
        1 => (name(), prop_oneof![Just(0o600u32), Just(0o644), Just(0o755)])
            .prop_map(|(n, m)| Call::SetMode(n, m)),
        1 => name().prop_map(Call::List),
        1 => file().prop_map(Call::Sync),
    ]
}

/// What a call gave: numbers and bytes, or an errno.
pub(crate) type Given = Result<(i64, Vec<u8>), i32>;

pub(crate) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8 ^ seed).collect()
}

/// Type and permissions, number of names, and size of what has one.
pub(crate) fn facts(a: &Attributes) -> (i64, Vec<u8>) {
    let is_folder = a.mode & libc::S_IFMT == libc::S_IFDIR;
    let size = if is_folder { 0 } else { a.size };
    (size as i64, [a.mode.to_le_bytes(), a.links.to_le_bytes()].concat())
}

/// The local file system, or what is mounted there.
pub(crate) struct Here {
    dir: OwnedFd,
    open: Vec<OwnedFd>,
    _tree: TempDir,
}

impl Here {
    /// In a new folder in `base`.
    pub(crate) fn new(base: &Path) -> Self {
        let tree = TempDir::new_in(base).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let dir = rustix::fs::open(tree.path(), flags, Mode::empty()).unwrap();
        Self { dir, open: Vec::new(), _tree: tree }
    }

    /// Whether a folder is open that was removed.
    #[allow(dead_code, reason = "one of the two that have this file needs it")]
    pub(crate) fn has_removed_folder(&self) -> bool {
        let is_one = |stat: rustix::fs::Stat| {
            stat.st_nlink == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFDIR
        };
        self.open.iter().any(|file| rustix::fs::fstat(file).is_ok_and(is_one))
    }

    pub(crate) fn call(&mut self, call: &Call) -> Option<Given> {
        let outcome = self.try_call(call);
        match outcome {
            Ok(None) => None,
            Ok(Some(given)) => Some(Ok(given)),
            Err(errno) => Some(Err(errno.raw_os_error())),
        }
    }

    fn try_call(&mut self, call: &Call) -> rustix::io::Result<Option<(i64, Vec<u8>)>> {
        use rustix::fs as r;
        let (dir, open) = (&self.dir, &mut self.open);
        macro_rules! file {
            ($i:expr) => {
                match open.get($i) {
                    Some(file) => file,
                    None => return Ok(None),
                }
            };
        }
        let number = |n: usize| (n as i64, Vec::new());
        if let Call::Rename(_, to) | Call::HardLink(_, to) = *call
            && NAMES[to].is_empty()
        {
            return Ok(None); // with two faults at once, either may be named
        }
        Ok(Some(match *call {
            Call::Open(n, f) => {
                let flags = OFlags::from_bits_retain(FLAGS[f] as u32);
                open.push(r::openat(dir, NAMES[n], flags, Mode::from_raw_mode(0o644))?);
                number(0)
            }
            Call::Close(f) => {
                file!(f);
                open.remove(f);
                number(0)
            }
            Call::Read(f, len) => {
                let mut into = vec![0; len];
                let got = rustix::io::read(file!(f), &mut into[..])?;
                into.truncate(got);
                (got as i64, into)
            }
            Call::Write(f, len, b) => number(rustix::io::write(file!(f), &bytes(len, b))?),
            Call::ReadAt(f, len, at) => {
                let mut into = vec![0; len];
                let got = rustix::io::pread(file!(f), &mut into[..], at)?;
                into.truncate(got);
                (got as i64, into)
            }
            Call::WriteAt(f, len, at, b) => {
                number(rustix::io::pwrite(file!(f), &bytes(len, b), at)?)
            }
            Call::Seek(f, whence, by) => {
                let to = match whence {
                    0 if by < 0 => return Ok(None), // a position is not negative by its type
                    0 => r::SeekFrom::Start(by as u64),
                    1 => r::SeekFrom::Current(by),
                    _ => r::SeekFrom::End(by),
                };
                let file = file!(f);
                let is_folder = r::fstat(file)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
                if is_folder {
                    return Ok(None); // what a folder's end is, each file system says
                }
                (r::seek(file, to)? as i64, Vec::new())
            }
            Call::Size(f) => facts(&r::fstat(file!(f))?.into()),
            Call::SetSize(f, size) => {
                r::ftruncate(file!(f), size)?;
                number(0)
            }
            Call::SetSizeOf(n, size) => {
                let file = r::openat(dir, NAMES[n], OFlags::WRONLY, Mode::empty())?;
                r::ftruncate(file, size)?;
                number(0)
            }
            Call::Stat(n, follow) => {
                let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
                facts(&r::statat(dir, NAMES[n], flags)?.into())
            }
            Call::Unlink(n) => {
                r::unlinkat(dir, NAMES[n], AtFlags::empty())?;
                number(0)
            }
            Call::RemoveDir(n) => {
                r::unlinkat(dir, NAMES[n], AtFlags::REMOVEDIR)?;
                number(0)
            }
            Call::MakeDir(n) => {
                r::mkdirat(dir, NAMES[n], Mode::from_raw_mode(0o755))?;
                number(0)
            }
            Call::Rename(a, b) => {
                r::renameat_with(dir, NAMES[a], dir, NAMES[b], RenameFlags::empty())?;
                number(0)
            }
            Call::HardLink(a, b) => {
                r::linkat(dir, NAMES[a], dir, NAMES[b], AtFlags::empty())?;
                number(0)
            }
            Call::MakeLink(a, b) => {
                r::symlinkat(NAMES[a], dir, NAMES[b])?;
                number(0)
            }
            Call::ReadLink(n) => {
                let target = r::readlinkat(dir, NAMES[n], Vec::new())?.into_bytes();
                (target.len() as i64, target)
            }
            Call::SetMode(n, mode) => {
                r::chmodat(dir, NAMES[n], Mode::from_raw_mode(mode), AtFlags::empty())?;
                number(0)
            }
            Call::List(n) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let listed = r::openat(dir, NAMES[n], flags, Mode::empty())?;
                let entries = r::Dir::read_from(listed)?.map(|entry| entry.unwrap());
                (0, sorted(entries.map(|entry| entry.file_name().to_bytes().to_vec()).collect()))
            }
            Call::Sync(f) => {
                r::fsync(file!(f))?;
                number(0)
            }
        }))
    }
}

pub(crate) fn sorted(mut names: Vec<Vec<u8>>) -> Vec<u8> {
    names.sort();
    names.join(&b'/')
}

pub(crate) fn short(given: &Given) -> String {
    match given {
        Ok((number, bytes)) => format!("{number} and {} bytes", bytes.len()),
        Err(errno) => std::io::Error::from_raw_os_error(*errno).to_string(),
    }
}
