//! What `make install` lays down, from where the running `wiglaf` was installed or built.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use wiglaf_base::error::{Context, Error, Result};

use crate::facts;
use crate::host::{Content, Step};
use crate::manifest::sha256;

/// Below a prefix: path, name in a build folder, mode.
const BUILT: [(&str, &str, u32); 10] = [
    ("bin/wiglaf", "wiglaf", 0o755),
    ("lib/wiglaf/libwiglaf-fi.so", "libwiglaf_fabric.so", 0o644),
    ("lib/wiglaf/libwiglaf-logical.so", "libwiglaf_logical.so", 0o644),
    ("lib/wiglaf/libwiglaf-profile.so", "libwiglaf_profile.so", 0o644),
    ("lib/wiglaf/libwiglaf-profile-mpi4.so", "libwiglaf_profile_mpi4.so", 0o644),
    ("lib/wiglaf/libwiglaf-multicast.so", "libwiglaf_multicast.so", 0o644),
    ("lib/wiglaf/libwiglaf-multicast-mpi4.so", "libwiglaf_multicast_mpi4.so", 0o644),
    ("lib/libwiglaf.so", "libwiglaf.so", 0o644),
    ("lib/libwiglaf_files.so", "libwiglaf_files.so", 0o644),
    ("sbin/wiglaf-helper", "wiglaf-helper", 0o755),
];
/// Below a prefix: path, name in the repository.
const SOURCES: [(&str, &str); 7] = [
    ("include/wiglaf.h", "crates/wiglaf-am/include/wiglaf.h"),
    ("include/wiglaf_files.h", "crates/wiglaf-files/include/wiglaf_files.h"),
    ("include/wiglaf_files.f90", "crates/wiglaf-files/fortran/wiglaf_files.f90"),
    ("lib/systemd/system/wiglaf-helper.service", "share/systemd/wiglaf-helper.service"),
    ("lib/systemd/system/wiglaf-helper.socket", "share/systemd/wiglaf-helper.socket"),
    ("share/man/man8/wiglaf-helper.8", "share/man/wiglaf-helper.8"),
    ("share/wireshark/wiglaf.lua", "share/wireshark/wiglaf.lua"),
];
/// Below a prefix: where shells look, and which shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("share/bash-completion/completions/wiglaf", "bash"),
    ("share/zsh/site-functions/_wiglaf", "zsh"),
    ("share/fish/vendor_completions.d/wiglaf.fish", "fish"),
];
const MAN: &str = "share/man/man1";
/// The provider under libfabric's own name.
const FRONT: (&str, &str) = ("lib/wiglaf/wiglaf-libfabric/libfabric.so.1", "../libwiglaf-fi.so");
/// Where Debian's packages put it.
pub(crate) const PACKAGED: &str = "/usr";
/// Where apt keeps packages that it has fetched.
const ARCHIVES: &str = "/var/cache/apt/archives";
/// What takes root: the helper and its units.
const ROOTS: [&str; 2] = ["sbin/", "lib/systemd/"];

/// A file of ours and where it is to be.
#[derive(Debug, Clone)]
struct Item {
    /// Below the prefix.
    path: String,
    mode: u32,
    content: Bytes,
}

/// What a file contains.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    /// That of the running program.
    Program,
    Of(PathBuf),
    Text(Vec<u8>),
}

/// All files of this build.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Where it is installed, if it is.
    pub(crate) prefix: Option<PathBuf>,
    items: Vec<Item>,
    /// The digests of the program and of the provider, by path below the prefix.
    pub(crate) sums: Vec<(String, String)>,
    /// Length of all, in bytes.
    pub(crate) len: u64,
    /// The glibc that it takes.
    pub(crate) glibc: Option<(u32, u32)>,
    /// The Debian package that it came as, which is installed in place of single files.
    pub(crate) package: Option<PathBuf>,
}

impl Tree {
    /// Finds what belongs to the running program `exe`.
    pub(crate) fn find(exe: &Path) -> Result<Self> {
        let exe = exe.canonicalize().cannot(|| format!("find {}", exe.display()))?;
        let above = exe.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent);
        let prefix = above.filter(|prefix| prefix.join(BUILT[1].0).is_file()).map(Path::to_owned);
        let mut items = match &prefix {
            Some(prefix) => installed(prefix),
            None => built(&exe)?,
        };
        items.insert(0, Item { path: BUILT[0].0.to_owned(), mode: 0o755, content: Bytes::Program });
        let program = fs::read(&exe).cannot(|| format!("read {}", exe.display()))?;
        let mut sums = Vec::new();
        let mut len = 0;
        for item in &items {
            len += item.content.len(&exe)?;
            if [BUILT[0].0, BUILT[1].0].contains(&&item.path[..]) {
                let sum = match &item.content {
                    Bytes::Program => sha256(&program[..]),
                    Bytes::Of(path) => File::open(path).and_then(sha256),
                    Bytes::Text(text) => sha256(&text[..]),
                };
                sums.push((item.path.clone(), sum.cannot(|| format!("read {}", item.path))?));
            }
        }
        let glibc = facts::glibc_of(&program);
        Ok(Self { prefix, items, sums, len, glibc, package: None })
    }

    /// Whether it was installed as a Debian package.
    pub(crate) fn is_packaged(&self) -> bool {
        self.prefix.as_deref() == Some(Path::new(PACKAGED))
    }

    /// Has other hosts get it as the package `deb`, which must be what this host has.
    pub(crate) fn by_package(&mut self, deb: &Path) -> Result<()> {
        let deb = deb.canonicalize().cannot(|| format!("find {}", deb.display()))?;
        let shown = deb.display();
        let sum = program_of(&deb).map_err(|why| {
            Error::new(format!(
                "{shown} is no Debian package of Wiglaf ({why}); build one with `make deb`"
            ))
        })?;
        if !self.is_packaged() || self.sums.first().is_none_or(|(_, own)| *own != sum) {
            return Err(Error::new(format!(
                "{shown} is not the Wiglaf that runs here; install it first with `sudo apt-get install \
                 --reinstall {shown}`, then call /usr/bin/wiglaf"
            )));
        }
        self.package = Some(deb);
        Ok(())
    }

    /// The package that it came as, where apt has kept it.
    pub(crate) fn find_package(&mut self) {
        let name = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with("wiglaf_") && name.ends_with(".deb"))
        };
        let kept = fs::read_dir(ARCHIVES).into_iter().flatten().flatten().map(|entry| entry.path());
        let _ = kept.filter(|path| name(path)).find(|path| self.by_package(path).is_ok());
    }

    /// What puts it below a prefix: the steps, and the contents in their order. Only root can use the helper.
    pub(crate) fn steps(&self, prefix: &Path, for_root: bool) -> Result<(Vec<Step>, Vec<Bytes>)> {
        let (mut steps, mut contents) = (Vec::new(), Vec::new());
        for item in &self.items {
            if !for_root && ROOTS.iter().any(|folder| item.path.starts_with(folder)) {
                continue;
            }
            let mut bytes = item.content.clone();
            if item.path.ends_with("wiglaf-helper.service") {
                bytes = Bytes::Text(self.unit(&bytes, prefix)?);
            }
            let content = match &bytes {
                Bytes::Program => Content::Program,
                bytes => Content::Sent(bytes.len(Path::new(""))?),
            };
            let path = prefix.join(&item.path);
            steps.push(Step::File { path, mode: item.mode, content, owner: None });
            if !matches!(bytes, Bytes::Program) {
                contents.push(bytes);
            }
        }
        let (path, target) = FRONT;
        steps.push(Step::Link { path: prefix.join(path), target: PathBuf::from(target) });
        Ok((steps, contents))
    }

    /// The helper's unit names the prefix.
    fn unit(&self, bytes: &Bytes, prefix: &Path) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        bytes.write(&mut text).cannot(|| "read the helper's unit".to_owned())?;
        let own = self.prefix.clone().unwrap_or_else(|| PathBuf::from("/usr/local"));
        let (from, to) = (own.join("sbin"), prefix.join("sbin"));
        let text = String::from_utf8_lossy(&text);
        Ok(text.replace(&from.display().to_string(), &to.display().to_string()).into_bytes())
    }
}

/// The digest of the program in a Debian package of Wiglaf's.
fn program_of(deb: &Path) -> Result<String> {
    let start = |command: &mut Command, what: &str| {
        command
            .stderr(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .cannot(|| format!("start {what}"))
    };
    let mut unpack = start(Command::new("dpkg-deb").arg("--fsys-tarfile").arg(deb), "dpkg-deb")?;
    let files = unpack.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let mut tar = Command::new("tar");
    let mut tar = start(tar.args(["-xO", "./usr/bin/wiglaf"]).stdin(files), "tar")?;
    let sum = tar.stdout.take().map(sha256).transpose().cannot(|| "read it".to_owned())?;
    let ended = [unpack.wait(), tar.wait()];
    let is_whole = ended.iter().all(|ended| ended.as_ref().is_ok_and(ExitStatus::success));
    sum.filter(|_| is_whole).ok_or_else(|| Error::new("it has no /usr/bin/wiglaf"))
}

impl Bytes {
    pub(crate) fn len(&self, exe: &Path) -> Result<u64> {
        let of = |path: &Path| {
            fs::metadata(path)
                .map(|about| about.len())
                .cannot(|| format!("read {}", path.display()))
        };
        match self {
            Self::Program => of(exe),
            Self::Of(path) => of(path),
            Self::Text(text) => Ok(text.len() as u64),
        }
    }

    pub(crate) fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        match self {
            // The host has it already.
            Self::Program => Ok(()),
            Self::Of(path) => io::copy(&mut File::open(path)?, &mut &mut *to).map(drop),
            Self::Text(text) => to.write_all(text),
        }
    }
}

fn installed(prefix: &Path) -> Vec<Item> {
    let built = BUILT.iter().skip(1).map(|(path, _, mode)| ((*path).to_owned(), *mode));
    let sources = SOURCES.iter().map(|(path, _)| ((*path).to_owned(), 0o644));
    let completions = COMPLETIONS.iter().map(|(path, _)| ((*path).to_owned(), 0o644));
    let mut pages: Vec<String> = fs::read_dir(prefix.join(MAN))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name == "wiglaf.1" || name.starts_with("wiglaf-"))
        .map(|name| format!("{MAN}/{name}"))
        .collect();
    pages.sort();
    let pages = pages.into_iter().map(|path| (path, 0o644));
    let all = built.chain(sources).chain(completions).chain(pages);
    all.filter_map(|(path, mode)| {
        // In Debian's packages libraries have a number, and the name without it comes with the headers.
        let content = [path.clone(), format!("{path}.0")].map(|path| prefix.join(path));
        let content = content.into_iter().find(|content| content.is_file())?;
        Some(Item { path, mode, content: Bytes::Of(content) })
    })
    .collect()
}

/// What a build folder has, as `make install` would install it.
fn built(exe: &Path) -> Result<Vec<Item>> {
    let own = exe.parent().unwrap_or(exe);
    let folders = [own.to_owned(), own.join("../release")];
    let folder = folders.iter().find(|folder| folder.join(BUILT[1].1).is_file()).ok_or_else(|| {
        Error::new(format!(
            "{} is neither installed nor in the folder of a whole build; run `make release`, then `sudo \
             make install` or `make install PREFIX=$HOME/.local`, and call that wiglaf",
            exe.display()
        ))
    })?;
    let mut items = Vec::new();
    for (path, name, mode) in BUILT.iter().skip(1) {
        let content = folder.join(name);
        if !content.is_file() {
            return Err(Error::new(format!(
                "{} is not built yet; run `make release`",
                content.display()
            )));
        }
        items.push(Item { path: (*path).to_owned(), mode: *mode, content: Bytes::Of(content) });
    }
    let root = folder.ancestors().find(|folder| folder.join(SOURCES[0].1).is_file());
    for (path, name) in SOURCES {
        let content = root.map(|root| root.join(name)).filter(|content| content.is_file());
        items.extend(content.map(|content| Item {
            path: path.to_owned(),
            mode: 0o644,
            content: Bytes::Of(content),
        }));
    }
    for (path, shell) in COMPLETIONS {
        let said = Command::new(exe).args(["completions", shell]).output();
        let text = said.cannot(|| format!("call {}", exe.display()))?.stdout;
        items.push(Item { path: path.to_owned(), mode: 0o644, content: Bytes::Text(text) });
    }
    let page =
        Command::new(exe).arg("man").output().cannot(|| format!("call {}", exe.display()))?;
    let path = format!("{MAN}/wiglaf.1");
    items.push(Item { path, mode: 0o644, content: Bytes::Text(page.stdout) });
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_debian_package_are_copied_under_their_plain_names() {
        let prefix = tempfile::tempdir().unwrap();
        let lib = prefix.path().join("lib");
        fs::create_dir(&lib).unwrap();
        // With the headers' package, and without it.
        fs::write(lib.join("libwiglaf_files.so.0"), "files").unwrap();
        std::os::unix::fs::symlink("libwiglaf_files.so.0", lib.join("libwiglaf_files.so")).unwrap();
        fs::write(lib.join("libwiglaf.so.0"), "messages").unwrap();
        let copied: Vec<_> = installed(prefix.path())
            .iter()
            .map(|item| {
                let mut text = Vec::new();
                item.content.write(&mut text).unwrap();
                (item.path.clone(), String::from_utf8(text).unwrap())
            })
            .collect();
        let wanted = [("lib/libwiglaf.so", "messages"), ("lib/libwiglaf_files.so", "files")];
        assert_eq!(copied, wanted.map(|(path, text)| (path.to_owned(), text.to_owned())));
    }
}
