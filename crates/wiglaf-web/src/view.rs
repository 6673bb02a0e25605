//! What the page shows, and its JSON.

use serde::Serialize;

/// All that the page shows.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// The cluster's name.
    pub cluster: String,
    /// When the nodes were looked at, in seconds since 1970.
    pub at_s: u64,
    /// The nodes, in their order.
    pub nodes: Vec<Node>,
    /// What is wrong besides: drained nodes, alerts, findings of the last check.
    pub troubles: Vec<Trouble>,
    /// The last `wiglaf check`.
    pub check: Part<Check>,
    /// Slurm's jobs, those that the user who serves the page may see.
    pub queue: Part<Queue>,
    /// What Prometheus has kept.
    pub history: Part<Vec<Series>>,
}

/// What is known, or why it is not and what to type.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part<T> {
    /// It is known.
    Is(T),
    /// It is not.
    Not(String),
}

/// A node.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Why it does not tell; then all else is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Processes that run or wait to, over a minute.
    pub load: Option<f64>,
    /// Its processors.
    pub cores: usize,
    /// Memory in use, in KiB.
    pub memory_used_kib: Option<u64>,
    /// All memory.
    pub memory_total_kib: Option<u64>,
    /// Of the hottest sensor.
    pub temperature_c: Option<f64>,
    /// The card of the data network.
    pub interface: Option<String>,
    /// Its speed.
    pub link_mbit_per_s: Option<u64>,
    /// Programs of jobs that may be seen.
    pub programs: Vec<String>,
    /// Sent by them, per second.
    pub sent_mb_per_s: Option<f64>,
    /// Packets that they sent again, per second.
    pub retransmitted_per_s: Option<f64>,
}

/// Something that is wrong, and what to type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// A sentence.
    pub says: String,
    /// A command or an advice.
    pub fix: String,
}

/// What `wiglaf check` measured.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// When, in seconds since 1970.
    pub at_s: u64,
    /// Its pairs.
    pub pairs: Vec<Pair>,
}

/// Two nodes.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// One.
    pub a: String,
    /// The other.
    pub b: String,
    /// The slower direction, in 10^6 bytes a second.
    pub mb_per_s: Option<f64>,
    /// What ended the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Slurm's queue.
#[derive(Debug, Clone, Serialize)]
pub struct Queue {
    /// As whom Slurm was asked.
    pub user: String,
    /// Its jobs.
    pub jobs: Vec<Job>,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct Job {
    /// Its number.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Slurm's word.
    pub state: String,
    /// For how long it has run.
    pub time: String,
    /// Its nodes, or how many it wants.
    pub nodes: String,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

/// One quantity over time, of all nodes.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// First and last second, since 1970.
    pub from_to_s: (u64, u64),
    /// For each node: seconds since 1970, and values.
    pub nodes: Vec<(String, Vec<(u64, f64)>)>,
}
