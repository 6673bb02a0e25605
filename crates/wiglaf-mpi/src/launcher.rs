//! The command lines of the launchers.

use std::ffi::OsString;

use super::{Family, Installation, hydra};

/// In which order ranks are dealt to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deal {
    /// One to each node in turn.
    #[default]
    Cyclic,
    /// As many as fit on the first node, then the second.
    Block,
}

/// Which ranks go where.
#[derive(Debug)]
pub struct Placement<'a> {
    /// How many ranks there are.
    pub ranks: usize,
    /// Nodes and how many ranks each gets, perhaps none.
    pub hosts: Vec<(&'a str, usize)>,
    /// How many processes each node has room for, those included that ranks start later.
    pub places: usize,
    /// In which order.
    pub deal: Deal,
}

/// Variables that begin like those for ranks and are the launcher's own.
const OWN_PREFIXES: [&str; 1] = ["I_MPI_HYDRA_"];

pub(super) fn is_launchers_own(name: &str) -> bool {
    OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl Placement<'_> {
    /// The nodes, each with a number made of its ranks; those with none are left out.
    fn with(&self, number: impl Fn(usize) -> usize) -> String {
        let hosts = self.hosts.iter().map(|(name, ranks)| (name, number(*ranks)));
        let hosts = hosts.filter(|(_, number)| *number > 0);
        hosts.map(|(name, number)| format!("{name}:{number}")).collect::<Vec<_>>().join(",")
    }

    fn names(&self) -> String {
        self.hosts.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }
}

impl Installation {
    /// How the launcher knows the host that it runs on, where hosts are named by their addresses. PRRTE before Open
    /// MPI 5.0.9 does not take its own address for itself, finds no room there and starts nothing (openpmix/prrte
    /// #2258); this name it knows in every version.
    #[must_use]
    pub fn name_of_own_host(&self) -> Option<&'static str> {
        self.is_prrte().then_some("localhost")
    }

    /// The launcher and its options, before the program. `vars` is the job's
    /// environment.
    pub fn command_line(
        &self,
        placement: &Placement<'_>,
        vars: &[(String, String)],
    ) -> Vec<OsString> {
        let mut words = vec!["-n".to_owned(), placement.ranks.to_string()];
        match (self.family, placement.deal) {
            (Family::OpenMpi, deal) => {
                let hosts = placement.with(|ranks| ranks.max(placement.places));
                words.extend(["--host", &hosts, "--map-by", "node"].map(Into::into));
                if deal == Deal::Block {
                    // Mapped by slot, they would fill the first node's room.
                    words.extend(["--rank-by", "slot"].map(Into::into));
                }
            }
            // hydra begins anew at the end of the list.
            (_, Deal::Cyclic) => {
                words.extend(["-hosts", &placement.names(), "-ppn", "1"].map(Into::into));
            }
            (_, Deal::Block) => {
                let hosts = placement.with(|ranks| ranks);
                words.extend(["-hosts", &hosts].map(Into::into));
            }
        }
        if self.family != Family::OpenMpi {
            // No variable does this: Intel's hydra has none, and MPICH's hands nothing on by its own.
            let list = vars.iter().find(|(name, _)| name == hydra::ENV_LIST);
            if let Some(names) = list.and_then(|(_, list)| list.strip_prefix(hydra::LIST)) {
                words.extend(["-genvlist", names].map(Into::into));
            }
        }
        let words = words.into_iter().map(OsString::from);
        std::iter::once(self.launcher.clone().into()).chain(words).collect()
    }
}
