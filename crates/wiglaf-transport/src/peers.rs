//! The peers of an endpoint, by index, by incarnation and by address (docs/protocol.md, section 7).

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddrV4;
use std::ops::{Index, IndexMut};

use wiglaf_wire::Epoch;

use crate::config::{Config, PeerId};
use crate::epochs::ByEpoch;
use crate::session::Session;

/// All sessions. None is ever removed: an index means one peer for good.
#[derive(Clone, Default)]
pub(crate) struct Peers {
    sessions: Vec<Session>,
    by_epoch: ByEpoch<u32>,
    by_address: HashMap<SocketAddrV4, u32>,
}

impl fmt::Debug for Peers {
    /// The maps follow from the sessions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sessions.fmt(f)
    }
}

impl Index<u32> for Peers {
    type Output = Session;

    #[inline]
    fn index(&self, index: u32) -> &Session {
        &self.sessions[index as usize]
    }
}

impl IndexMut<u32> for Peers {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Session {
        &mut self.sessions[index as usize]
    }
}

impl Peers {
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The indices of all.
    pub(crate) fn indices(&self) -> std::ops::Range<u32> {
        0..self.sessions.len() as u32
    }

    pub(crate) fn get(&self, peer: PeerId) -> Option<&Session> {
        self.sessions.get(peer.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Session> {
        self.sessions.get_mut(peer.0 as usize)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Session> {
        self.sessions.iter()
    }

    /// The one of that incarnation.
    #[inline]
    pub(crate) fn of_epoch(&self, epoch: Epoch) -> Option<u32> {
        self.by_epoch.get(&epoch).copied()
    }

    /// The newest one with that address.
    pub(crate) fn at(&self, at: SocketAddrV4) -> Option<u32> {
        self.by_address.get(&at).copied()
    }

    /// The peer of that address and incarnation, who gets an index if he has none. Without an epoch, that is whoever is
    /// at `at`, but not who was there before and has ended.
    pub(crate) fn connect(
        &mut self,
        at: SocketAddrV4,
        epoch: Epoch,
        path: usize,
        config: &Config,
    ) -> u32 {
        if epoch.is_known() {
            if let Some(index) = self.of_epoch(epoch) {
                // It may have called before, and who repeats its datagrams writes what sender
                // he likes. Whoever names the peer knows better.
                if self[index].move_to(at) {
                    self.by_address.insert(at, index);
                }
                return index;
            }
            if let Some(index) = self.name(at, epoch) {
                return index;
            }
        } else if let Some(index) = self.at(at).filter(|index| !self[*index].has_ended()) {
            return index;
        }
        self.add(at, epoch, path.min(config.paths.len() - 1), config)
    }

    /// Gives the session with whoever is at `at` the epoch, if it has none yet.
    pub(crate) fn name(&mut self, at: SocketAddrV4, epoch: Epoch) -> Option<u32> {
        let index = self.at(at)?;
        if !self[index].adopt(epoch) {
            return None;
        }
        self.by_epoch.insert(epoch, index);
        Some(index)
    }

    pub(crate) fn add(
        &mut self,
        at: SocketAddrV4,
        epoch: Epoch,
        path: usize,
        config: &Config,
    ) -> u32 {
        let index = self.sessions.len() as u32;
        self.sessions.push(Session::new(at, path, epoch, config));
        self.by_address.insert(at, index);
        if epoch.is_known() {
            self.by_epoch.insert(epoch, index);
        }
        index
    }
}
