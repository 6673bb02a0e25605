//! What a datagram meets at the end of its way: a process that runs, a socket that fills while it does
//! not, or a port that nobody listens at.

use std::time::Duration;

use wiglaf_transport::Instant;

use super::{Node, World, address};
use crate::scenario::{Mishap, What};

/// Datagrams that wait for a process that does not run; more are lost.
const SOCKET_ROOM: usize = 512;
/// Datagrams that wait for a process that does not run, where sockets are to overflow.
const SHORT_ROOM: usize = 16;
/// How often a process loses its core where there are overruns, as a probability at each thing that
/// happens, and for how long at most.
const NAP: f64 = 0.02;
const NAP_NS_MAX: u64 = 300_000;
/// How much of a refused datagram its sender is shown, in bytes.
const QUOTED_LEN: usize = 120;

impl World {
    /// Whatever has come by now.
    pub(super) fn receive(&mut self) {
        while let Some((from, to, bytes)) = self.network.arrive(self.now) {
            let room = if self.setting.overruns { SHORT_ROOM } else { SOCKET_ROOM };
            let node = &mut self.nodes[to];
            if node.is_closed {
                self.refuse(from, to, &bytes);
            } else if node.paused_until <= self.now {
                node.receive(self.now, self.now, address(from), &bytes);
            } else if node.socket.len() < room {
                node.socket.push_back((self.now, address(from), bytes));
            } else {
                node.was_overrun = true;
            }
        }
    }

    /// Its sender is told, as a host does it; networks limit how often.
    fn refuse(&mut self, from: usize, at: usize, bytes: &[u8]) {
        let is_told = self.random.chance(0.5);
        let (now, sender) = (self.now, &mut self.nodes[from]);
        if is_told && sender.runs(now) {
            let (shown, front) = (sender.clock.shows(now), &bytes[..bytes.len().min(QUOTED_LEN)]);
            let (transport, peer) = (&mut sender.transport, &mut sender.peer);
            transport.handle_unreachable(shown, address(at), Some(front), peer);
        }
    }

    /// A process dies and leaves its port to nobody until then. Some know of it by themselves, as those
    /// do who share a machine with it.
    pub(super) fn die(&mut self, me: usize, until: Instant) {
        let (now, epoch) = (self.now, self.nodes[me].epoch);
        self.nodes[me].is_closed = true;
        for node in self.nodes.iter_mut().filter(|node| node.runs(now)) {
            if self.random.chance(0.3) {
                let shown = node.clock.shows(now);
                node.transport.handle_death(shown, epoch, &mut node.peer);
            }
        }
        let after = until - Instant::from_nanos(1);
        let at = self.mishaps.partition_point(|mishap| mishap.after <= after);
        let what = What::Restart { node: me };
        self.mishaps.insert(at, Mishap { after, lasts: Duration::ZERO, what });
    }

    /// Now and then a process loses its core, where sockets are to overflow.
    pub(super) fn nap(&mut self, me: usize) {
        if self.setting.overruns && self.random.chance(NAP) {
            let pause = Duration::from_nanos(self.random.below(NAP_NS_MAX));
            self.nodes[me].paused_until = self.now + pause;
        }
    }
}

impl Node {
    pub(super) fn runs(&self, now: Instant) -> bool {
        !self.is_closed && self.paused_until <= now
    }

    /// Takes what has waited, and says what there was no room for.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((arrived_at, from, bytes)) = self.socket.pop_front() {
            self.receive(now, arrived_at, from, &bytes);
        }
        if std::mem::take(&mut self.was_overrun) {
            self.transport.overrun(0);
        }
        if self.transport.owes_overrun() {
            self.transport.tell_of_overrun(self.clock.shows(now));
        }
    }
}
