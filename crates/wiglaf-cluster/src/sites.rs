//! Sites: other clusters whose batch system takes jobs from here. Each is a host that ssh reaches, and a folder there.
//!
//! They stand in a file of their own, because a site is no host of the cluster here, and who sends jobs to one needs
//! no cluster at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths;
use wiglaf_node::ssh::Target;

use crate::hosts::check_destination;
use crate::toml_file;

/// The variable that names the file of sites.
pub const FILE_VAR: &str = "WIGLAF_SITES";
/// The file of all users.
const FILE_OF_ALL: &str = "/etc/wiglaf/sites.toml";
/// Where jobs' files are at a site unless the file says, below the user's home there.
const FOLDER: &str = "wiglaf-jobs";

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    site: BTreeMap<String, RawSite>,
}

/// A section `[site.NAME]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSite {
    host: String,
    user: Option<String>,
    folder: Option<String>,
    slurmrestd: Option<String>,
}

/// Another cluster that takes jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// What the user calls it.
    pub name: String,
    /// How its head is reached.
    pub target: Target,
    /// The folder there for jobs' files: below the user's home unless absolute.
    pub folder: String,
    /// Where slurmrestd is there, if it is not found by its name.
    pub slurmrestd: Option<String>,
}

/// The site of that name.
///
/// # Errors
/// When there is none, with those that there are; when a file is malformed.
pub fn find(name: &str) -> Result<Site> {
    let files = files();
    let mut known = Vec::new();
    for path in &files {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            text => text.cannot(|| format!("read the file of sites {}", path.display()))?,
        };
        for site in parse(&text, path)? {
            if site.name == name {
                return Ok(site);
            }
            known.push(site.name);
        }
    }
    known.dedup();
    let has = match known.is_empty() {
        true => "there is none yet".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    let first = files.first().map_or_else(|| FILE_OF_ALL.into(), |path| path.display().to_string());
    Err(Error::new(format!(
        "there is no site {name}; {has}; write it into {first}: `[site.{name}]`, and below it `host = \"...\"`, \
         what ssh calls its head"
    )))
}

/// Where sites are looked for, the first first.
fn files() -> Vec<PathBuf> {
    let named = std::env::var_os(FILE_VAR).filter(|value| !value.is_empty()).map(PathBuf::from);
    match named {
        Some(path) => vec![path],
        None => {
            let own = paths::user_config().map(|config| config.join("wiglaf/sites.toml"));
            own.into_iter().chain([PathBuf::from(FILE_OF_ALL)]).collect()
        }
    }
}

fn parse(text: &str, path: &Path) -> Result<Vec<Site>> {
    let shown = path.display();
    let raw: RawFile = toml_file::parse(text, &shown)?;
    let wrong = |name: &str, why: &str| Error::new(format!("{shown}: [site.{name}]: {why}"));
    let site = |(name, raw): (String, RawSite)| {
        crate::shape::check_cluster_name(&name)
            .and_then(|()| check_destination(&raw.host))
            .and_then(|()| raw.user.as_deref().map_or(Ok(()), check_destination))
            .map_err(|error| wrong(&name, &error.to_string()))?;
        let folder = raw.folder.unwrap_or_else(|| FOLDER.to_owned());
        for (path, what) in [(Some(&folder), "folder"), (raw.slurmrestd.as_ref(), "slurmrestd")] {
            let is_odd = |path: &String| path.is_empty() || path.contains(char::is_control);
            if path.is_some_and(is_odd) {
                return Err(wrong(&name, &format!("{what} is no path")));
            }
        }
        if folder.split('/').any(|part| [".", "..", "~"].contains(&part)) || folder == "/" {
            let why = format!(
                "folder = \"{folder}\": give one below your home there, or an absolute one"
            );
            return Err(wrong(&name, &why));
        }
        let target =
            Target { host: raw.host, user: raw.user, exe: None, is_here: false, is_watched: false };
        Ok(Site { name, target, folder, slurmrestd: raw.slurmrestd })
    };
    raw.site.into_iter().map(site).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Vec<Site>, String> {
        super::parse(text, Path::new("sites.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn file_says_how_each_site_is_reached() {
        let text = "[site.other]\nhost = \"head.other.org\"\nuser = \"ann\"\n[site.third]\nhost = \"t\"\n\
                    folder = \"/scratch/ann\"\n";
        let sites = parse(text).unwrap();
        assert_eq!(
            (sites[0].target.login().as_str(), sites[0].folder.as_str()),
            ("ann@head.other.org", FOLDER)
        );
        assert_eq!(sites[1].folder, "/scratch/ann");
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn what_a_file_of_sites_cannot_mean_is_refused_with_its_place() {
        for (text, part) in [
            ("[site.a]\nuser = \"ann\"", "line 1: missing field `host`"),
            ("[site.a]\nhost = \"-oProxyCommand=x\"", "[site.a]: `-oProxyCommand=x` is no host"),
            ("[site.a]\nhost = \"h\"\nuser = \"a b\"", "`a b` is no host or user"),
            ("[site.a]\nhost = \"h\"\nfolder = \"../x\"", "give one below your home"),
            ("[site.a]\nhost = \"h\"\nfolder = \"\"", "folder is no path"),
            ("[site.a]\nhost = \"h\"\nport = 22", "line 3: unknown field `port`"),
            ("[site.\"a/b\"]\nhost = \"h\"", "a/b"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
