//! PCs that were installed join the cluster when they have started from their disks: what was installed on an admitted PC
//! has told its new ssh host key, and only who answers with that key is joined.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::power::Mac;

use crate::hostkey;
use crate::outside::{command, run};

/// A PC that was installed and has not joined yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) mac: Mac,
    /// The address that it had while it was installed.
    pub(crate) from: Ipv4Addr,
    /// The public half of its ssh host key.
    pub(crate) key: String,
}

/// A PC that answers with the key that was made when it was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The name that it was admitted by.
    pub name: String,
    /// Where it answers.
    pub address: Ipv4Addr,
    /// A line for ssh's known_hosts.
    pub known_hosts: String,
}

/// Who answers at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    Nobody,
    Another,
    Same,
}

/// All that have not joined yet, in memory and in a file, for a server that is started anew.
#[derive(Debug)]
pub(crate) struct Waiting {
    all: Mutex<BTreeMap<String, Installed>>,
    file: PathBuf,
    /// What was said already.
    said: Mutex<BTreeSet<String>>,
}

impl Waiting {
    /// Those of before, but for nodes that are installed once more.
    pub(crate) fn load(file: &Path, again: &[String]) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut all: BTreeMap<String, Installed> = serde_json::from_str(&text).unwrap_or_default();
        all.retain(|name, it| !again.contains(name) && hostkey::is_public(&it.key));
        Self { all: Mutex::new(all), file: file.to_owned(), said: Mutex::default() }
    }

    /// The names.
    pub(crate) fn all(&self) -> BTreeMap<String, Installed> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers one, in place of what it was before.
    pub(crate) fn add(&self, name: &str, installed: Installed) -> Result<()> {
        self.change(|all| drop(all.insert(name.to_owned(), installed)))
    }

    /// Forgets one that has joined, or is not admitted any more.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        self.change(|all| drop(all.remove(name)))
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Installed>)) -> Result<()> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut all);
        let cannot = || format!("write {}", self.file.display());
        if all.is_empty() {
            let _ = fs::remove_file(&self.file);
            return Ok(());
        }
        let text = serde_json::to_string(&*all).cannot(cannot)?;
        let new = self.file.with_extension("joining.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).cannot(cannot)
    }

    /// A sentence that is said once.
    pub(crate) fn is_news(&self, text: &str) -> bool {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned())
    }
}

impl Installed {
    /// This PC, if it answers at one of these addresses.
    ///
    /// # Errors
    /// When only others do.
    pub(crate) fn find(&self, name: &str, addresses: &[Ipv4Addr]) -> Result<Option<Newcomer>> {
        let mut other = None;
        for address in addresses {
            match self.answers(*address) {
                Answers::Nobody => {}
                Answers::Another => other = Some(address),
                Answers::Same => {
                    let known_hosts =
                        hostkey::known_hosts(&[&address.to_string(), name], &self.key);
                    return Ok(Some(Newcomer {
                        name: name.to_owned(),
                        address: *address,
                        known_hosts,
                    }));
                }
            }
        }
        match other {
            None => Ok(None),
            Some(address) => Err(Error::new(format!(
                "{name}: who answers at {address} has another ssh host key than was made when {name} was installed, and \
                 is not joined; if it is {name}, install it once more with `wiglaf image serve --again {name}`"
            ))),
        }
    }

    /// Asks for the key alone; that it has the private half is ssh's to find out.
    fn answers(&self, address: Ipv4Addr) -> Answers {
        let mut scan = command("ssh-keyscan");
        scan.args(["-T", "3", "-t", "ed25519"]).arg(address.to_string());
        // It complains of whoever is not there.
        let said = run(&mut scan, "").unwrap_or_default();
        let keys = said.lines().filter(|line| !line.starts_with('#'));
        let keys: Vec<&str> = keys.filter_map(|line| line.split_whitespace().nth(2)).collect();
        match keys.is_empty() {
            true => Answers::Nobody,
            false if keys.contains(&&self.key[..]) => Answers::Same,
            false => Answers::Another,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostkey::HostKey;

    fn installed() -> Installed {
        let key = HostKey::new().unwrap().public().to_owned();
        Installed { mac: Mac([2, 0, 0, 0, 0, 5]), from: Ipv4Addr::LOCALHOST, key }
    }

    #[test]
    fn who_has_not_joined_is_remembered_by_the_next_server() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.joining");
        let (one, other) = (installed(), installed());
        let waiting = Waiting::load(&file, &[]);
        waiting.add("pc5", one.clone()).unwrap();
        waiting.add("pc6", other).unwrap();
        waiting.forget("pc6").unwrap();
        let again = Waiting::load(&file, &[]).all();
        assert_eq!(again, BTreeMap::from([("pc5".to_owned(), one)]));
        assert!(Waiting::load(&file, &["pc5".to_owned()]).all().is_empty());
        waiting.forget("pc5").unwrap();
        assert!(!file.exists());
        fs::write(
            &file,
            "{\"pc5\":{\"mac\":\"02:00:00:00:00:05\",\"from\":\"10.0.0.1\",\"key\":\"x y\"}}",
        )
        .unwrap();
        assert!(Waiting::load(&file, &[]).all().is_empty());
    }

    #[test]
    fn nobody_is_found_where_nobody_answers() {
        // No server of ssh listens at this address of the loopback.
        let at = [Ipv4Addr::new(127, 9, 9, 9)];
        if std::net::TcpStream::connect((at[0], 22)).is_ok() {
            eprintln!("skipped: an ssh server listens at all addresses here");
            return;
        }
        assert_eq!(installed().find("pc5", &at), Ok(None));
    }
}
