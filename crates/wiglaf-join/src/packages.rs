//! Debian packages on a host: installed where they are missing, and removed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};

/// A package in a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether it is there for other packages alone.
    pub(crate) is_auto: bool,
}

/// A package that has another version than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Changed {
    pub(crate) name: String,
    /// None: it was not there.
    pub(crate) before: Option<String>,
    /// None: it is gone.
    pub(crate) after: Option<String>,
    /// Whether it was there for other packages alone.
    pub(crate) was_auto: bool,
}

/// Installs those that are missing. Says which came, those among them that these need.
///
/// # Errors
/// What apt said last. What it had installed by then is removed.
pub(crate) fn install(wanted: &[String]) -> Result<Vec<String>> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let before = installed()?;
    if wanted.iter().all(|package| before.contains(package)) {
        return Ok(Vec::new());
    }
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    install_words(&wanted, &before)
}

/// Installs a package from its file, in place of another build of it. Says which packages are new here, as above.
///
/// # Errors
/// What apt said last. What was not there before is removed.
pub(crate) fn install_file(deb: &Path) -> Result<Vec<String>> {
    let words = ["--reinstall", "--allow-downgrades", &deb.display().to_string()];
    install_words(&words, &installed()?)
}

fn install_words(words: &[&str], before: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut install = vec!["install", "-y", "-qq", "--no-install-recommends", "-o"];
    // What conflicts with what somebody has installed is refused, because it would not come back.
    install.extend(["Dpkg::Options::=--force-confold", "--no-remove"]);
    install.extend(words);
    // Its lists may be older than the archive; where there is no network, they do.
    let done = apt(&install).or_else(|_| {
        let _ = apt(&["update", "-qq"]);
        apt(&install)
    });
    let new: Vec<String> = installed()?.difference(before).cloned().collect();
    match done {
        Ok(()) => Ok(new),
        Err(error) => {
            let _ = purge(&new);
            Err(error)
        }
    }
}

/// Removes them with their configuration, unless another package needs them.
///
/// # Errors
/// What dpkg said last.
pub(crate) fn purge(packages: &[String]) -> Result<()> {
    let has = installed()?;
    let there: Vec<&str> =
        packages.iter().filter(|package| has.contains(*package)).map(String::as_str).collect();
    match there.is_empty() {
        true => Ok(()),
        false => {
            let done = finish(Command::new("dpkg").arg("--purge").args(&there), "dpkg --purge");
            let Err(error) = done else { return Ok(()) };
            let has = installed()?;
            let left: Vec<&str> = there.into_iter().filter(|one| has.contains(*one)).collect();
            let left = left.join(" ");
            Err(Error::new(format!(
                "the packages {left} stay, because others need them or {error}; `sudo apt-get purge {left}` removes \
                 them and those"
            )))
        }
    }
}

/// Has packages in exactly these versions, and others go, in one step of apt. Files of earlier versions are kept below
/// `debs`, where they can be had. Says what has changed, and what cannot be brought back.
///
/// # Errors
/// What apt said last; the packages are as they were then.
pub(crate) fn change(
    wanted: &[Version],
    unwanted: &[String],
    debs: &Path,
) -> Result<(Vec<Changed>, Vec<String>)> {
    let (before, autos) = (versions()?, autos()?);
    let mut notes = Vec::new();
    fs::create_dir_all(debs).cannot(|| format!("make the folder {}", debs.display()))?;
    for name in wanted.iter().map(|package| &package.name).chain(unwanted) {
        if let Some(version) = before.get(name).filter(|version| !keep(name, version, debs)) {
            notes.push(format!(
                "{name} {version} can be had from no archive any more, so `wiglaf image rollback` may not bring it back"
            ));
        }
    }
    let mut words: Vec<String> =
        wanted.iter().map(|package| format!("{}={}", package.name, package.version)).collect();
    words.extend(unwanted.iter().map(|name| format!("{name}-")));
    let done = exactly(&words, unwanted.is_empty()).or_else(|_| {
        let _ = apt(&["update", "-qq"]);
        exactly(&words, unwanted.is_empty())
    });
    let after = versions()?;
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let changed: Vec<Changed> = changed
        .map(|name| Changed {
            name: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
            was_auto: autos.contains(name),
        })
        .collect();
    if let Err(error) = done {
        let _ = restore(&changed, debs);
        let _ = fs::remove_dir_all(debs);
        return Err(error);
    }
    mark(wanted.iter().filter(|package| package.is_auto).map(|package| &package.name));
    Ok((changed, notes))
}

/// Brings earlier versions back. Says what stays, and why.
pub(crate) fn restore(changed: &[Changed], debs: &Path) -> Vec<String> {
    let mut kept = Vec::new();
    let now = match versions() {
        Ok(now) => now,
        Err(error) => return vec![format!("the packages stay: {error}")],
    };
    let mut words = Vec::new();
    for package in changed {
        let Changed { name, before, after, .. } = package;
        if now.get(name) == before.as_ref() {
            continue;
        }
        if now.get(name) != after.as_ref() {
            kept.push(format!("the package {name} stays: somebody has changed it since"));
            continue;
        }
        words.push(match before {
            None => format!("{name}-"),
            Some(version) => match file_of(name, version, debs) {
                Some(file) => file.display().to_string(),
                None => format!("{name}={version}"),
            },
        });
    }
    if words.is_empty() {
        return kept;
    }
    match exactly(&words, false) {
        Ok(()) => mark(changed.iter().filter(|one| one.was_auto).map(|one| &one.name)),
        Err(error) => kept.push(format!("packages stay as they are: {error}")),
    }
    kept
}

/// One step of apt, which fetches what is named and asks nothing.
fn exactly(words: &[String], is_safe: bool) -> Result<()> {
    let mut install =
        vec!["install", "-y", "-qq", "--no-install-recommends", "--allow-downgrades", "--purge"];
    install.extend(["-o", "Dpkg::Options::=--force-confold"]);
    if is_safe {
        install.push("--no-remove");
    }
    install.extend(words.iter().map(String::as_str));
    apt(&install)
}

/// Keeps the file of a package in that version.
fn keep(name: &str, version: &str, debs: &Path) -> bool {
    let wanted = format!("{name}={version}");
    let mut fetch = Command::new("apt-get");
    // What was fetched for its installation is often there still.
    fetch.current_dir(debs).args(["download", "-qq", &wanted]);
    finish(&mut fetch, "apt-get download").is_ok() && file_of(name, version, debs).is_some()
}

/// apt's name of a package's file: colons are written as %3a.
fn file_of(name: &str, version: &str, debs: &Path) -> Option<PathBuf> {
    let name = name.split(':').next().unwrap_or(name);
    let start = format!("{name}_{}_", version.replace(':', "%3a"));
    let found = fs::read_dir(debs).ok()?.flatten().map(|entry| entry.path());
    found.into_iter().find(|path| {
        path.file_name().and_then(|file| file.to_str()).is_some_and(|file| file.starts_with(&start))
    })
}

fn mark<'a>(names: impl Iterator<Item = &'a String>) {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if !names.is_empty() {
        // Only what `apt-get autoremove` offers depends on it.
        let _ = finish(Command::new("apt-mark").arg("auto").args(names), "apt-mark auto");
    }
}

fn autos() -> Result<BTreeSet<String>> {
    let said = Command::new("apt-mark").arg("showauto").output();
    let said = said.cannot(|| "start apt-mark, which Debian has".to_owned())?;
    Ok(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect())
}

/// All packages that are installed, as apt names them, with their versions.
fn versions() -> Result<BTreeMap<String, String>> {
    let said = Command::new("sh").args(["-c", LIST]).output();
    let said = said.cannot(|| "start sh".to_owned())?;
    Ok(String::from_utf8_lossy(&said.stdout).lines().filter_map(listed).map(|(it, _)| it).collect())
}

/// Prints each package: `package`, its state, its name, its version.
pub(crate) const LIST: &str = "native=$(dpkg --print-architecture)\n\
    dpkg-query -W -f '${db:Status-Abbrev}\\t${Package}:${Architecture}\\t${Version}\\n' | \
    sed -e \"s/:$native\t/\t/\" -e 's/:all\t/\t/' -e 's/^/package\t/'";

/// A line of that, where the package is installed; whether somebody holds it.
pub(crate) fn listed(line: &str) -> Option<((String, String), bool)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let ["package", state, name, version] = fields[..] else { return None };
    let is_there = state.as_bytes().get(1) == Some(&b'i');
    is_there.then(|| ((name.to_owned(), version.to_owned()), state.starts_with('h')))
}

fn installed() -> Result<BTreeSet<String>> {
    let mut ask = Command::new("dpkg-query");
    ask.args(["-W", "-f", "${db:Status-Abbrev} ${Package}\\n"]);
    let said = ask.output().cannot(|| "start dpkg-query, which Debian has".to_owned())?;
    let said = String::from_utf8_lossy(&said.stdout);
    Ok(said
        .lines()
        .filter_map(|line| Some(line.get(1..)?.strip_prefix("i ")?.trim().to_owned()))
        .collect())
}

fn apt(words: &[&str]) -> Result<()> {
    finish(Command::new("apt-get").args(words), &format!("apt-get {}", words[0]))
}

fn finish(command: &mut Command, what: &str) -> Result<()> {
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.output().cannot(|| format!("start {what}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let told = |line: &&str| line.starts_with("E: ") || line.starts_with("dpkg: error");
    let last = said.lines().rfind(told).or_else(|| said.lines().last()).unwrap_or_default();
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(format!("`{what}` failed there ({})", last.trim()))),
    }
}
