//! Lets others see what an endpoint counts: `wiglaf stats` reads it.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wiglaf_counters::{FOLDER, Identity, Peer, Publisher};
use wiglaf_endpoint::{Endpoint, PeerCounts};

/// How often a snapshot is written.
const EVERY: Duration = Duration::from_millis(100);
/// Where launchers say which rank a process is: Wiglaf's own, Open MPI's, those of hydra.
const RANK_VARS: [&str; 4] = ["WIGLAF_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];

/// Publishes the counters of an endpoint for as long as it lives. Where that
/// cannot be done (no shared memory), it goes without.
pub(crate) fn publish(endpoint: &mut Endpoint) {
    let Ok(mut publisher) = Publisher::create(Path::new(FOLDER), identity(endpoint)) else {
        return;
    };
    let mut peers: Vec<Peer> = Vec::new();
    endpoint.watch(EVERY, move |endpoint| {
        peers.clear();
        peers.extend(endpoint.peers().map(|peer| seen(&peer)));
        if peers.len() > wiglaf_counters::PEERS_MAX {
            peers.sort_by_key(|p| std::cmp::Reverse(p.messages_sent + p.messages_received));
        }
        publisher.publish(endpoint.counters().into_iter(), &peers);
    });
}

fn identity(endpoint: &Endpoint) -> Identity {
    let name = endpoint.name();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
    let rank = RANK_VARS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    Identity {
        pid: std::process::id(),
        epoch: name.epoch.0,
        at: name.at,
        opened_at_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        job: std::env::var("WIGLAF_JOB").unwrap_or_default(),
        program: program.to_string_lossy().into_owned(),
        rank,
        links: endpoint.links().collect::<Vec<_>>().join(","),
    }
}

fn seen(peer: &PeerCounts) -> Peer {
    let traffic = &peer.traffic;
    Peer {
        at: peer.address.at,
        epoch: peer.address.epoch.0,
        via: peer.via.to_owned(),
        is_gone: peer.is_gone,
        messages_sent: traffic.messages_sent,
        bytes_sent: traffic.bytes_sent,
        messages_received: traffic.messages_received,
        bytes_received: traffic.bytes_received,
        retransmitted: traffic.retransmitted,
        credit_stalls: traffic.credit_stalls,
        credit_left: peer.credit_left,
        rtt_ns: u64::try_from(peer.rtt.as_nanos()).unwrap_or(u64::MAX),
        in_flight: peer.in_flight,
    }
}
