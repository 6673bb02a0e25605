//! The links of an endpoint: which of them have failed, and which peers they have been told of.

use std::collections::VecDeque;
use std::io;

use wiglaf_link::Link;
use wiglaf_link::near::Near;
use wiglaf_transport::{PeerId, Transport};

use crate::Address;

/// See the module. A link's number is its path's.
pub(crate) struct LinkSet {
    all: Vec<Box<dyn Link>>,
    /// Those that have failed and are not used any further, by bits.
    broken: u32,
    /// Their failures, until somebody asks.
    failures: VecDeque<(&'static str, io::Error)>,
    /// How many peers they have been told of.
    introduced: u32,
    /// The link whose near lane peers of this node are reached by.
    near: Option<usize>,
}

impl LinkSet {
    pub(crate) fn new(mut all: Vec<Box<dyn Link>>) -> Self {
        let near = all.iter_mut().position(|link| link.near().is_some());
        Self { all, broken: 0, failures: VecDeque::new(), introduced: 0, near }
    }

    /// All of them, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Link> {
        self.all.iter().map(AsRef::as_ref)
    }

    /// The link of a path.
    pub(crate) fn get(&self, path: usize) -> Option<&dyn Link> {
        self.all.get(path).map(AsRef::as_ref)
    }

    /// The link of a path of the transport's.
    ///
    /// # Panics
    /// When there is no such path.
    pub(crate) fn of_path(&mut self, path: usize) -> &mut dyn Link {
        self.all[path].as_mut()
    }

    /// The path and the near lane by which peers of this node are reached, if there is one.
    #[inline]
    pub(crate) fn lane(&mut self) -> Option<(usize, &mut dyn Near)> {
        let path = self.near?;
        Some((path, self.all[path].near()?))
    }

    /// Those that have not failed, with their paths.
    pub(crate) fn whole(&mut self) -> impl Iterator<Item = (usize, &mut Box<dyn Link>)> {
        let broken = self.broken;
        self.all.iter_mut().enumerate().filter(move |(path, _)| broken & 1 << path == 0)
    }

    /// A link has failed. False when that was known.
    pub(crate) fn fail(&mut self, path: usize, why: io::Error) -> bool {
        let is_new = self.broken & 1 << path == 0;
        if is_new {
            self.broken |= 1 << path;
            self.failures.push_back((self.all[path].name(), why));
        }
        is_new
    }

    /// A link that has failed, and why; each once.
    pub(crate) fn take_failure(&mut self) -> Option<(&'static str, io::Error)> {
        self.failures.pop_front()
    }

    /// Whether none is left.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.broken.count_ones() as usize == self.all.len()
    }

    /// Tells them of a peer; answers by which path it is reached. [`LinkSet::met`] is to follow.
    pub(crate) fn reach(&mut self, address: Address) -> Option<usize> {
        for link in &mut self.all {
            link.add_peer(address.at, address.epoch.0);
        }
        self.whole().filter(|(_, link)| link.reaches(address.at)).map(|(path, _)| path).last()
    }

    /// They know that peer, and another may be where it was by the next look at strangers.
    pub(crate) fn met(&mut self, peer: PeerId) {
        self.introduced = self.introduced.max(peer.0 + 1);
    }

    /// Tells them of peers that have called before anybody inserted them: shared memory
    /// answers only to whom it knows.
    pub(crate) fn introduce_strangers(&mut self, transport: &Transport) {
        while let Some(view) = transport.peer(PeerId(self.introduced)) {
            for link in &mut self.all {
                link.add_peer(view.at, view.epoch.0);
            }
            self.introduced += 1;
        }
    }
}
