//! Counters that are bound to memory regions (`fi_mr_bind`), and the endpoints that serve regions:
//! what a peer does to a region is counted wherever it comes in.

use std::sync::{Arc, Mutex, Weak};

use wiglaf_endpoint::{Completion, Side};

use crate::attended::Attended;
use crate::cntr::CntrState;
use crate::engine::{Shared, is_read};
use crate::guard::{Fi, lock};

#[derive(Default)]
struct Inner {
    /// Enabled endpoints of the domain.
    engines: Vec<Weak<Attended>>,
    /// Region's key, whether reads or writes are counted, and by which counter.
    counters: Vec<(u64, bool, Arc<CntrState>)>,
}

/// The watched regions of a domain.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Inner>);

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl Watched {
    /// From now on `counter` counts reads, or writes, of a region.
    pub(crate) fn watch(&self, key: u64, reads: bool, counter: &Arc<CntrState>) -> Fi<()> {
        let engines = {
            let mut inner = lock(&self.0)?;
            inner.counters.push((key, reads, Arc::clone(counter)));
            inner.engines.clone()
        };
        // An endpoint's lock is taken before ours when it counts: never the other way round.
        for engine in engines.iter().filter_map(Weak::upgrade) {
            counter.attach(&engine)?;
            lock(&engine)?.endpoint.report_remote(true);
        }
        Ok(())
    }

    /// The region is closed.
    pub(crate) fn forget(&self, key: u64) -> Fi<()> {
        lock(&self.0)?.counters.retain(|(watched, ..)| *watched != key);
        Ok(())
    }

    /// An endpoint has been enabled: reading a region's counter moves its data, too.
    pub(crate) fn join(&self, engine: &Shared) -> Fi<()> {
        let counters: Vec<_> = {
            let mut inner = lock(&self.0)?;
            inner.engines.retain(|other| other.strong_count() > 0);
            inner.engines.push(Arc::downgrade(engine));
            inner.counters.iter().map(|(.., counter)| Arc::clone(counter)).collect()
        };
        for counter in &counters {
            counter.attach(engine)?;
        }
        if !counters.is_empty() {
            lock(engine)?.endpoint.report_remote(true);
        }
        Ok(())
    }

    /// Counts what a peer did.
    pub(crate) fn count(&self, completion: &Completion) {
        if completion.side != Side::Recv || !completion.class.names_memory() {
            return;
        }
        let is_read = is_read(completion.class);
        if let Ok(inner) = lock(&self.0) {
            for (key, reads, counter) in &inner.counters {
                if *key == completion.tag && *reads == is_read {
                    counter.count(true);
                }
            }
        }
    }
}
