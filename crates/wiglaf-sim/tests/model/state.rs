//! A sender, a receiver and the network between them, and all that can happen there.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_transport::limits::CREDIT_INITIAL;
use wiglaf_transport::{Config, Instant, Path, PeerId, Posted, Transport};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

use crate::Bounds;
use crate::app::{App, tag};

const FRAME_LEN: usize = 700;
/// The two ends, and the ports at which they are.
pub(crate) const SENDER: usize = 0;
pub(crate) const RECEIVER: usize = 1;

fn address(end: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1 + end as u16)
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) ends: [Transport; 2],
    pub(crate) apps: [App; 2],
    /// The receiver, as the sender knows it, and which incarnation that is.
    pub(crate) peer: PeerId,
    pub(crate) known: u64,
    /// Where to, and the datagram; sorted, as their order means nothing.
    pub(crate) network: Vec<(usize, Vec<u8>)>,
    pub(crate) now: Instant,
    /// How many messages went to the incarnation that is known.
    pub(crate) sent: u64,
    pub(crate) next_message: usize,
    pub(crate) left: [u8; 5],
}

pub(crate) const LOSSES: usize = 0;
pub(crate) const DOUBLES: usize = 1;
pub(crate) const TIMEOUTS: usize = 2;
pub(crate) const RESTARTS: usize = 3;
pub(crate) const REBIRTHS: usize = 4;

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way: Vec<_> = self.network.iter().map(|(to, d)| (to, d[2], d.len())).collect();
        write!(f, "at {:?}: under way {under_way:?}, {:?}", self.now, self.apps[RECEIVER])
    }
}

struct Fingerprint<'a, H>(&'a mut H);

impl<H: Hasher> fmt::Write for Fingerprint<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.apps, self.peer.0, self.known, &self.network).hash(state);
        (self.now.as_nanos(), self.sent, self.next_message, self.left).hash(state);
        for end in &self.ends {
            end.write_state(&mut Fingerprint(state)).expect("a hasher takes everything");
        }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let hash = |state: &Self| {
            let mut hasher = std::hash::DefaultHasher::new();
            state.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

fn transport(epoch: Epoch, flow_control: bool) -> Transport {
    let path = Path {
        frame_len_max: FRAME_LEN,
        frame_len_sure: FRAME_LEN,
        latency_train_max: 1,
        bulk_train_max: 4,
        bulk_window_len: 16 * 1024,
        bulk_port: 9,
    };
    Transport::new(Config {
        epoch,
        key: JobKey([1; 16]),
        paths: vec![path],
        silence_limit: Duration::from_secs(60),
        flow_control,
        encrypt: false,
    })
}

impl State {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        let epochs = [SENDER, RECEIVER].map(|end| bounds.epoch(end, 0));
        let mut ends = epochs.map(|epoch| transport(epoch, bounds.flow_control));
        let peer = ends[SENDER].connect(address(RECEIVER), epochs[RECEIVER], 0);
        ends[RECEIVER].connect(address(SENDER), epochs[SENDER], 0);
        let left =
            [bounds.losses, bounds.doubles, bounds.timeouts, bounds.restarts, bounds.rebirths];
        let mut state = Self {
            ends,
            apps: [App::default(), App::default()],
            peer,
            known: 0,
            network: Vec::new(),
            now: Instant::from_nanos(1),
            sent: 0,
            next_message: 0,
            left,
        };
        for len in &bounds.before {
            state.send(*len);
            state.calm(&[], false);
        }
        assert_eq!(state.apps[RECEIVER].wrong, None);
        state.now = Instant::from_nanos(1_000_000_000);
        state
    }

    pub(crate) fn send(&mut self, len: usize) -> bool {
        let tag = tag(self.known, self.apps[SENDER].incarnation, self.sent);
        let envelope = Envelope::new(Class::Tagged, tag, None);
        let app = &mut self.apps[SENDER];
        let posted = self.ends[SENDER].send(self.peer, envelope, len, tag, false, app);
        if posted == Ok(Posted::Pending) {
            app.sends.push(tag);
        }
        self.sent += u64::from(posted.is_ok());
        posted.is_ok()
    }

    /// Whatever both ends have to say goes to the network.
    pub(crate) fn flush(&mut self) {
        let mut out = [0; 4 * FRAME_LEN];
        for end in [SENDER, RECEIVER] {
            while let Some(t) = self.ends[end].poll_transmit(self.now, &self.apps[end], &mut out) {
                let datagrams = out[..t.len].chunks(t.segment_len);
                self.network.extend(datagrams.map(|datagram| (1 - end, datagram.to_vec())));
            }
        }
        self.network.sort();
    }

    pub(crate) fn deliver(&mut self, at: usize) {
        let (to, datagram) = self.network.remove(at);
        let (end, app) = (&mut self.ends[to], &mut self.apps[to]);
        end.handle_datagram(self.now, address(1 - to), 0, &datagram, app);
    }

    pub(crate) fn timeout(&mut self) -> bool {
        let Some(at) = self.ends.iter().filter_map(Transport::poll_timeout).min() else {
            return false;
        };
        self.now = self.now.max(at);
        for (end, app) in self.ends.iter_mut().zip(&mut self.apps) {
            end.handle_timeout(self.now, app);
        }
        true
    }

    /// All that is unread at once: one by one, the orders of eight messages would be all that there
    /// is to see.
    pub(crate) fn consume(&mut self) {
        for (peer, len) in std::mem::take(&mut self.apps[RECEIVER].unread) {
            self.ends[RECEIVER].consume(peer, len);
        }
    }

    /// How much of a peer's may lie unread.
    pub(crate) fn granted(&self, peer: PeerId) -> u64 {
        let sender = self.ends[RECEIVER].peer(peer);
        sender.map_or(CREDIT_INITIAL, |sender| sender.credit_granted)
    }

    /// The living sender, as the receiver knows it, if it has heard of it.
    pub(crate) fn sender(&self) -> Option<PeerId> {
        self.apps[RECEIVER].peers.get(&self.apps[SENDER].incarnation).copied()
    }

    /// A new receiver, which its launcher tells of the sender that lives.
    pub(crate) fn restart(&mut self, bounds: &Bounds) {
        self.succeed(RECEIVER, bounds);
        let sender = bounds.epoch(SENDER, self.apps[SENDER].incarnation);
        self.ends[RECEIVER].connect(address(SENDER), sender, 0);
    }

    /// A new sender, which knows the receiver that the old one knew, and which the receiver does not.
    pub(crate) fn rebirth(&mut self, bounds: &Bounds) {
        self.succeed(SENDER, bounds);
        self.meet(bounds);
    }

    /// The next incarnation of an end, which knows nobody.
    fn succeed(&mut self, end: usize, bounds: &Bounds) {
        let incarnation = self.apps[end].incarnation + 1;
        self.ends[end] = transport(bounds.epoch(end, incarnation), bounds.flow_control);
        self.apps[end] = App { incarnation, ..App::default() };
    }

    pub(crate) fn learn(&mut self, bounds: &Bounds) {
        self.known = self.apps[RECEIVER].incarnation;
        self.meet(bounds);
    }

    fn meet(&mut self, bounds: &Bounds) {
        let epoch = bounds.epoch(RECEIVER, self.known);
        self.peer = self.ends[SENDER].connect(address(RECEIVER), epoch, 0);
        self.sent = 0;
    }

    /// A network without faults, and a receiver that reads if `reads`: true once the messages
    /// are all sent and all that went to the living incarnation is there.
    pub(crate) fn calm(&mut self, messages: &[usize], reads: bool) -> bool {
        for _ in 0..400 {
            self.flush();
            while !self.network.is_empty() {
                self.deliver(0);
            }
            if reads {
                self.consume();
            }
            self.flush();
            let is_known = self.known == self.apps[RECEIVER].incarnation;
            if let Some(len) = messages.get(self.next_message).filter(|_| is_known) {
                self.next_message += usize::from(self.send(*len));
                continue;
            }
            let is_quiet = self.network.is_empty() && self.ends[RECEIVER].is_drained();
            let received = self.apps[RECEIVER].received.get(&self.apps[SENDER].incarnation);
            let is_there = received.copied().unwrap_or(0) == self.sent || !is_known;
            let is_acknowledged = self.apps[SENDER].sends.iter().all(|tag| tag >> 32 != self.known);
            if is_quiet && is_there && is_acknowledged {
                return true;
            }
            if self.network.is_empty() && !self.timeout() {
                return false;
            }
        }
        false
    }
}
