//! What the names of hosts mean on this host.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Names that are looked up at once, each on a thread.
const AT_ONCE_MAX: usize = 256;

/// What a name means here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Its addresses, in the resolver's order.
    pub addresses: Vec<IpAddr>,
    /// Why there are none.
    pub trouble: Option<String>,
}

/// An answer to come.
type Answer = mpsc::Receiver<Result<Vec<IpAddr>, String>>;

/// Look-ups under way.
pub(super) struct Lookups {
    names: Vec<(String, Answer)>,
}

impl Lookups {
    /// Begins to look up each name once.
    pub(super) fn begin(names: impl Iterator<Item = String>) -> Self {
        let mut seen = BTreeSet::new();
        let names = names.filter(|name| !name.is_empty() && seen.insert(name.clone()));
        let lookups = names.take(AT_ONCE_MAX).map(|name| {
            let asked = name.clone();
            (name, super::later(move || resolve(&asked)))
        });
        Self { names: lookups.collect() }
    }

    /// What has been answered until then.
    pub(super) fn end(self, until: Instant) -> Vec<Name> {
        let answers =
            self.names.into_iter().map(|(name, answer)| match super::wait(&answer, until) {
                Some(Ok(addresses)) => Name { name, addresses, trouble: None },
                Some(Err(why)) => Name { name, addresses: Vec::new(), trouble: Some(why) },
                None => Name { name, addresses: Vec::new(), trouble: Some(super::LATE.to_owned()) },
            });
        answers.collect()
    }
}

fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let found = (name, 0).to_socket_addrs().map_err(|why| {
        let why = why.to_string();
        why.rsplit(": ").next().unwrap_or(&why).to_owned()
    })?;
    let mut seen = BTreeSet::new();
    Ok(found.map(|at| at.ip()).filter(|ip| seen.insert(*ip)).collect())
}
