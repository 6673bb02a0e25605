//! Debian packages on a host: installed where they are missing, and removed again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use wiglaf_base::error::{Context, Error, Result};

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
