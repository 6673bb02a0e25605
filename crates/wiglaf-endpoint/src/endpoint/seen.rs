//! What can be seen of an endpoint while it runs: its counters, shown to a
//! watcher now and then, at moments when the clock is read anyway.

use std::time::Duration;

use wiglaf_link::Link;
use wiglaf_transport::{Instant as Tick, PeerId, Traffic};

use super::machines::Machines;
use super::news::News;
use crate::endpoint::Endpoint;
use crate::{Address, PeerView};

/// Who looks on. It gets the endpoint as it is, between two steps of progress.
type Watcher = Box<dyn FnMut(&Endpoint) + Send>;

/// When the endpoint is shown next, and to whom; when machines are looked at next.
pub(crate) struct Watch {
    /// The earlier one of both.
    next_at: Tick,
    every: Duration,
    watcher: Option<Watcher>,
    show_at: Tick,
    machines: Option<Box<Machines>>,
    machines_at: Tick,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            next_at: NEVER,
            every: Duration::MAX,
            watcher: None,
            show_at: NEVER,
            machines: None,
            machines_at: NEVER,
        }
    }
}

const NEVER: Tick = Tick::from_nanos(u64::MAX);

impl Watch {
    /// One comparison: all that progress pays when it is not.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        now >= self.next_at
    }

    /// From now on machines are looked at.
    pub(crate) fn add_machines(&mut self, machines: Machines) {
        self.machines = Some(Box::new(machines));
        (self.machines_at, self.next_at) = (Tick::ZERO, Tick::ZERO);
    }

    /// The next thing to be said of a machine.
    pub(crate) fn pop_news(&mut self) -> Option<(PeerId, Duration, News)> {
        self.machines.as_mut()?.news.pop_front()
    }

    pub(crate) fn has_news(&self) -> bool {
        self.machines.as_ref().is_some_and(|machines| !machines.news.is_empty())
    }
}

/// Every counter of an endpoint with its name, those of several links added up.
pub type Counters = Vec<(&'static str, u64)>;

/// What is counted and known of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCounts {
    /// Where it is.
    pub address: Address,
    /// By which link: `udp`, `packet` or `shm`; `near` past the transport.
    pub via: &'static str,
    /// Smoothed round-trip time of datagrams; zero on the near lane.
    pub rtt: Duration,
    /// Packets that are not acknowledged yet.
    pub in_flight: u32,
    /// How much may be sent unasked, in bytes of charges.
    pub credit_left: u64,
    /// Whether it is gone.
    pub is_gone: bool,
    /// Messages and bytes.
    pub traffic: Traffic,
}

impl Endpoint {
    /// Has `watcher` look at the endpoint from now on, about once in `every`
    /// for as long as something polls it. It must not block.
    pub fn watch(&mut self, every: Duration, watcher: impl FnMut(&Self) + Send + 'static) {
        self.watch.every = every;
        self.watch.watcher = Some(Box::new(watcher));
        (self.watch.show_at, self.watch.next_at) = (Tick::ZERO, Tick::ZERO);
    }

    #[cold]
    pub(crate) fn show(&mut self, now: Tick) {
        if now >= self.watch.show_at
            && let Some(mut watcher) = self.watch.watcher.take()
        {
            self.watch.show_at = now + self.watch.every;
            watcher(self);
            self.watch.watcher = Some(watcher);
        }
        if now >= self.watch.machines_at
            && let Some(mut machines) = self.watch.machines.take()
        {
            self.watch.machines_at = now + machines.every();
            self.look_at_machines(now, &mut machines);
            self.watch.machines = Some(machines);
        }
        self.watch.next_at = self.watch.show_at.min(self.watch.machines_at);
    }

    /// Every counter with its name, in a fixed order.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let near = self.near_stats();
        let remote = self.remote_stats();
        let drops: Vec<_> = self.links.iter().map(Link::drops).collect();
        let sum = |of: fn(&wiglaf_link::Drops) -> u64| drops.iter().map(of).sum();
        let others = [
            ("near_eager_sent", near.eager_sent),
            ("near_announced", near.announced),
            ("near_credit_stalls", near.credit_stalls),
            ("near_copied_once", near.copied_once),
            ("near_copied_twice", near.copied_twice),
            ("drop_near_record", near.refused),
            ("remote_performed", remote.performed),
            ("drop_remote_key", remote.refused_key),
            ("drop_remote_access", remote.refused_access),
            ("drop_remote_bounds", remote.refused_bounds),
            ("drop_remote_malformed", remote.refused_malformed),
            ("drop_remote_room", remote.refused_room),
            ("drop_remote_answer", remote.refused_answers),
            ("drop_link_malformed", sum(|d| d.malformed)),
            ("drop_link_unsent", sum(|d| d.unsent)),
            ("drop_link_overflow", sum(|d| d.overflows)),
        ];
        self.stats().iter().chain(others).collect()
    }

    /// All peers that something was exchanged with, in the order in which they
    /// became known. One that was met on both ways is there twice.
    pub fn peers(&self) -> impl Iterator<Item = PeerCounts> {
        let known = (0..).map(PeerId).map_while(|peer| Some((peer, self.peer(peer)?)));
        known.flat_map(|(peer, view)| self.counts_of(peer, &view)).flatten()
    }

    fn counts_of(&self, peer: PeerId, view: &PeerView) -> [Option<PeerCounts>; 2] {
        let over_link = PeerCounts {
            address: Address { at: view.at, epoch: view.epoch },
            via: self.links.get(view.path).map_or("none", Link::name),
            rtt: view.rtt,
            in_flight: view.in_flight,
            credit_left: view.credit_left,
            is_gone: view.is_gone,
            traffic: view.traffic,
        };
        let near = self.near.traffic_with(peer).map(|(traffic, credit_left)| PeerCounts {
            via: "near",
            rtt: Duration::ZERO,
            in_flight: 0,
            credit_left,
            traffic,
            ..over_link
        });
        let used = view.traffic != Traffic::default() || view.in_flight > 0;
        [used.then_some(over_link), near]
    }
}
