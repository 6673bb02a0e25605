//! Ends a job between hosts whose messages a firewall drops.
//!
//! To a rank, a peer that a firewall hides is one that computes, or is held by a debugger: nothing comes of it, and its
//! machine is there. So some seconds after the job's start its hosts are asked whether plain datagrams pass between
//! them, as `wiglaf check` does, and a job of which that is not so is ended with what check says of it. Jobs that have
//! ended by then are not looked at.

use std::net::Ipv4Addr;
use std::time::Duration;

use wiglaf_base::{Error, Result};
use wiglaf_check::probe::{PairResult, Plan};
use wiglaf_check::verdict::Severity;
use wiglaf_cluster::launch::{Job, Mpi, RunningJob};
use wiglaf_cluster::{Cluster, Member};
use wiglaf_mpi::Transport;
use wiglaf_node::ssh;

use crate::check;

/// After how long the hosts are asked; `off`: never.
const VAR: &str = "WIGLAF_PROBE_AFTER";
/// Unless that says otherwise. Ranks have found each other by then, and whoever waits for them has not lost patience.
const AFTER: Duration = Duration::from_secs(10);

/// Watches a job from now on, if its messages could be dropped between hosts.
///
/// # Errors
/// When the variable says no time.
pub(crate) fn watch(cluster: &Cluster, job: &Job, running: &RunningJob) -> Result<()> {
    let after = match std::env::var(VAR).ok().filter(|text| !text.trim().is_empty()) {
        Some(text) => ssh::parse_limit(VAR, &text)?,
        None => Some(AFTER),
    };
    let sends_datagrams = job.mpi == Mpi::None || job.transport == Transport::Wiglaf;
    let members = running.members().to_vec();
    let (Some(after), Some(end)) = (after, running.end_for()) else { return Ok(()) };
    if job.is_patient || !sends_datagrams || members.len() < 2 {
        return Ok(());
    }
    let cluster = cluster.clone();
    std::thread::spawn(move || {
        std::thread::sleep(after);
        if let Some(why) = blocked(&cluster, &members) {
            end(why);
        }
    });
    Ok(())
}

/// Which of the hosts gets no datagrams of another one, and what to do.
fn blocked(cluster: &Cluster, members: &[Member]) -> Option<Error> {
    let addresses = check::addresses(cluster, members);
    let ends: Vec<(&Member, Ipv4Addr)> =
        members.iter().zip(addresses).filter_map(|(member, at)| Some((member, at.ok()?))).collect();
    let plan = Plan { samples: 3, pings: 20, ..Plan::nothing(check::ports(cluster)) };
    // Each with the next: a firewall of one host's is between it and any other. One pair after the other, so that the
    // job hardly notices.
    let count = if ends.len() == 2 { 1 } else { ends.len() };
    let neighbours = ends.iter().zip(ends.iter().cycle().skip(1));
    for (first, second) in neighbours.take(count) {
        let pairs = check::measure_pairs(&[*first, *second], &plan, true);
        if pairs.iter().any(is_silent) {
            let pair = [first.0.clone(), second.0.clone()];
            let checked = check::judge(cluster, &pair, pairs)?;
            let fatal = checked
                .findings
                .into_iter()
                .find(|finding| finding.code == "ports" && finding.severity == Severity::Fatal);
            if let Some(finding) = fatal {
                return Some(Error::new(format!(
                    "{}, so the job was ended: no message arrives there; {}; then `wiglaf check`",
                    finding.sentence, finding.fix
                )));
            }
        }
    }
    None
}

/// Whether nothing at all has arrived one way.
fn is_silent(pair: &PairResult) -> bool {
    [&pair.a_to_b, &pair.b_to_a].into_iter().any(|way| {
        way.ports.get().is_some_and(|ports| !ports.asked.is_empty() && ports.arrived.is_empty())
    })
}
