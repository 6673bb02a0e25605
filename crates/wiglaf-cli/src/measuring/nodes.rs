//! The nodes to measure on: a cluster that is up already, or one of our own
//! for as long as the measurement lasts.

use std::path::Path;

use wiglaf_base::{Error, Result, machine};
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::shape::{Draft, Nodes, Shape, Wire};
use wiglaf_cluster::{Record, StateDir};
use wiglaf_emulation::{fault, up};

use super::interrupt;
use crate::options::Global;
use crate::up::this_exe;

/// Clusters of our own are called so, and have our pid at the end.
const OWN_PREFIX: &str = "bench-";

/// What the nodes must be like; what is left open may be anything.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish {
    /// So many, or more.
    pub(crate) nodes: usize,
    /// What joins them.
    pub(crate) wire: Option<Wire>,
    /// Rate of every switch port.
    pub(crate) rate: Option<Rate>,
    /// MTU of every interface.
    pub(crate) mtu: Option<u32>,
    /// Nodes that keep to no core, for several ranks on each.
    pub(crate) free_cores: bool,
    /// What is left open must be as in a cluster of our own: figures of one name are to be
    /// comparable, whatever is up.
    pub(crate) as_usual: bool,
}

impl Wish {
    /// A cluster as wished of so many nodes; what is left open is as usual.
    fn draft(&self, nodes: usize) -> Draft {
        Draft {
            nodes: Some(Nodes::Count(nodes)),
            mtu: self.mtu,
            rate: self.rate,
            wire: self.wire,
            pin: self.free_cores.then_some(false),
            ..Draft::default()
        }
    }

    /// Whether a cluster of our own on these cores would look the same, whatever its nodes' names.
    fn is_usual(&self, shape: &Shape, cores: &[usize]) -> bool {
        self.draft(shape.nodes.len()).shape(cores).is_ok_and(|usual| {
            let mut nodes = shape.nodes.iter().zip(&usual.nodes);
            (shape.wire, shape.mtu) == (usual.wire, usual.mtu)
                && nodes.all(|(a, b)| (a.core, a.rate) == (b.core, b.rate))
        })
    }

    fn is_met_by(&self, shape: &Shape, cores: &[usize]) -> bool {
        (!self.as_usual || self.is_usual(shape, cores))
            && shape.nodes.len() >= self.nodes
            && (!self.free_cores || shape.nodes.iter().all(|node| node.core.is_none()))
            && self.wire.is_none_or(|wire| wire == shape.wire)
            && self.mtu.is_none_or(|mtu| mtu == shape.mtu)
            && self.rate.is_none_or(|rate| shape.nodes.iter().all(|n| n.rate == Some(rate)))
    }
}

/// A running cluster. Dropping it takes it down if it is our own.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Where its state is.
    pub(crate) state: StateDir,
    /// What it looks like.
    pub(crate) record: Record,
    is_own: bool,
}

impl Cluster {
    /// The user's cluster if it is up and as wished, else one of our own; says
    /// which. From now on a signal is a wish to stop, see [`interrupt`].
    pub(crate) fn find_or_start(global: &Global, wish: &Wish) -> Result<Self> {
        let [cluster] = Self::find_or_start_all(global, [wish])?;
        Ok(cluster)
    }

    /// For each of `wishes` the user's cluster if it is up and fits, else one of our own; says which. From now on a
    /// signal is a request to stop, see [`interrupt`].
    pub(crate) fn find_or_start_all<const N: usize>(
        global: &Global,
        wishes: [&Wish; N],
    ) -> Result<[Self; N]> {
        // Before anything is started: a cluster that is half up is to be taken down.
        interrupt::listen()?;
        remove_orphans();
        let mut clusters = Vec::with_capacity(N);
        for (place, wish) in wishes.into_iter().enumerate() {
            clusters.push(Self::find_or_start_one(global, wish, place)?);
        }
        interrupt::check()?;
        clusters.try_into().map_err(|_| Error::new("a cluster is missing"))
    }

    fn find_or_start_one(global: &Global, wish: &Wish, place: usize) -> Result<Self> {
        let state = global.state_dir();
        let users = state.record()?.filter(up::is_whole);
        let cluster = match users {
            Some(record) if wish.is_met_by(&record.shape, &machine::cores()) => {
                refuse_faults(&state, &record)?;
                Self { state, record, is_own: false }
            }
            other => {
                if let Some(record) = other {
                    eprintln!(
                        "wiglaf: the cluster that is up ({}) has not the shape wanted",
                        record.shape.summary()
                    );
                }
                Self::start(wish, place)?
            }
        };
        // One sentence now rather than one for each contender later.
        for node in &cluster.record.shape.nodes {
            cluster.state.node(&node.name).hello()?;
        }
        let how = if cluster.is_own { "a cluster of its own" } else { "the cluster that is up" };
        let shape = &cluster.record.shape;
        let is_pinned = shape.nodes.iter().all(|node| node.core.is_some());
        let cores = if is_pinned { "" } else { ", nodes that keep to no core" };
        eprintln!("wiglaf: using {how}: {}{cores}", shape.summary());
        Ok(cluster)
    }

    /// The command that brings such nodes up, if the user did so before.
    pub(crate) fn command(&self) -> Option<String> {
        (!self.is_own).then(|| self.record.shape.command())
    }

    fn start(wish: &Wish, place: usize) -> Result<Self> {
        let mut name = format!("{OWN_PREFIX}{}", std::process::id());
        if place > 0 {
            name = format!("{name}-{place}");
        }
        let state = StateDir::new(None, &name);
        let draft = Draft { name: Some(name), ..wish.draft(wish.nodes) };
        let record = up::up(&state, draft, &this_exe()?)?.record().clone();
        Ok(Self { state, record, is_own: true })
    }
}

/// Nothing that is measured on a wire which somebody has made bad says anything, and some benchmarks set
/// faults themselves.
fn refuse_faults(state: &StateDir, record: &Record) -> Result<()> {
    if record.shape.wire != Wire::Bridge {
        return Ok(()); // faults sit on ports of a switch
    }
    let nodes: Vec<String> = record.shape.nodes.iter().map(|node| node.name.clone()).collect();
    let ports = fault::show(state, record, &nodes)?;
    match ports.iter().zip(&nodes).find(|(port, _)| port.faults.is_some() || port.is_down) {
        None => Ok(()),
        Some((_, node)) => Err(Error::new(format!(
            "the wire of {node} has faults; run `wiglaf fault clear` first, or name a cluster of its \
             own for the benchmark (`--name`)"
        ))),
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.is_own
            && let Err(error) = up::down(&self.state)
        {
            eprintln!("wiglaf: {error}");
        }
    }
}

/// Takes down what measurements left behind that were killed.
fn remove_orphans() {
    let any = StateDir::new(None, OWN_PREFIX);
    let Some(Ok(entries)) = any.path().parent().map(std::fs::read_dir) else { return };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let pid = name.strip_prefix(OWN_PREFIX).and_then(|rest| rest.split('-').next());
        let pid = pid.filter(|pid| pid.parse::<u32>().is_ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another user's, perhaps; it is not in our way.
            let _ = up::down(&StateDir::new(None, &name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_up_must_be_as_wished() {
        let shape = |text: &str| Draft::parse(text, "f").unwrap().shape(&[0, 1]).unwrap();
        let met = |wish: Wish, text: &str| wish.is_met_by(&shape(text), &[0, 1]);
        let any = Wish { nodes: 2, ..Wish::default() };
        assert!(met(any, "nodes = 3\nmtu = 9000\nrate = '1gbit'"));
        assert!(!met(any, "nodes = 1"));
        assert!(!met(Wish { free_cores: true, ..any }, ""));
        assert!(met(Wish { free_cores: true, ..any }, "pin = false"));
        assert!(met(Wish { wire: Some(Wire::Bridge), ..any }, ""));
        assert!(!met(Wish { wire: Some(Wire::Direct), ..any }, ""));
        assert!(!met(Wish { mtu: Some(9000), ..any }, ""));
        let rate = Some(Rate::parse("1gbit").unwrap());
        assert!(met(Wish { rate, ..any }, "rate = '1gbit'"));
        assert!(!met(Wish { rate, ..any }, "rate = '1gbit'\n[node.node2]\nrate='2gbit'"));
    }

    #[test]
    fn the_set_measures_on_no_cluster_that_is_unlike_its_own() {
        let shape = |text: &str| Draft::parse(text, "f").unwrap().shape(&[0, 1]).unwrap();
        let met = |wish: Wish, text: &str| wish.is_met_by(&shape(text), &[0, 1]);
        let usual = Wish { nodes: 2, as_usual: true, ..Wish::default() };
        assert!(met(usual, "") && met(usual, "nodes = 4") && met(usual, "nodes = 'pc[7-9]'"));
        for other in [
            "mtu = 9000",
            "rate = '1gbit'",
            "pin = false",
            "wire = 'direct'",
            "[node.node2]\nrate = '1gbit'",
            "[node.node2]\ncore = 0",
        ] {
            assert!(!met(usual, other), "{other}");
        }
        // What was asked for is no less usual.
        assert!(met(Wish { mtu: Some(9000), ..usual }, "mtu = 9000"));
        assert!(met(Wish { free_cores: true, ..usual }, "pin = false"));
        assert!(met(Wish { wire: Some(Wire::Direct), ..usual }, "wire = 'direct'"));
    }
}
