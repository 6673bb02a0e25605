//! What users should know of peers, since it costs them speed or their job.

use std::time::Duration;

use wiglaf_transport::{Gone, PeerId, WayNews};

use crate::Address;
use crate::endpoint::Endpoint;

/// What there is to be said of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// What was found out about the way to it.
    Way(WayNews),
    /// It was not heard for long, and its machine, which never answers, does not either.
    MachineUnknown,
    /// It has begun, its machine answers, and nothing was ever heard of it.
    Unheard,
    /// It is gone.
    Gone(Gone),
}

/// News of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerNews {
    /// Where the peer is, as far as is known.
    pub address: Address,
    /// For how long it was not heard.
    pub silent: Duration,
    /// What there is to be said.
    pub news: News,
}

impl Endpoint {
    /// The next thing that users should know. Who is gone is told here or by [`Endpoint::pop_gone`].
    pub fn pop_news(&mut self) -> Option<PeerNews> {
        if let Some((peer, way)) = self.transport.take_way_news() {
            return self.news_of(peer, None, News::Way(way));
        }
        if let Some((peer, silent, news)) = self.watch.pop_news() {
            return self.news_of(peer, Some(silent), news);
        }
        let (peer, why) = self.pop_gone()?;
        self.news_of(peer, None, News::Gone(why))
    }

    /// Whether there is any.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.books.gone.is_empty() || self.transport.has_way_news() || self.watch.has_news()
    }

    fn news_of(&self, peer: PeerId, silent: Option<Duration>, news: News) -> Option<PeerNews> {
        let address = self.address_of(peer)?;
        let silent = silent.or_else(|| self.transport.silent_for(peer, self.now()));
        Some(PeerNews { address, silent: silent.unwrap_or_default(), news })
    }
}
