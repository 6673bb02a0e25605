//! Who sleeps at an endpoint, and on what.
//!
//! An endpoint is used by one thread at a time, whichever has it. A thread that is about to sleep
//! must not keep the others from it. So sleeping takes three steps: the thread lies down, which asks
//! the links to signal; it lets go of the endpoint and sleeps on descriptors that outlive it; and it
//! takes the endpoint again to get up. What another thread does meanwhile that a sleeper may be
//! waiting for rings the alarm, a descriptor on which all of them sleep.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use wiglaf_transport::Instant as Tick;

use crate::link_set::LinkSet;

/// What the threads of one endpoint sleep on: descriptors of its links, kept open by duplicates, and
/// the alarm.
#[derive(Debug)]
struct Bed {
    links: Vec<OwnedFd>,
    alarm: OwnedFd,
}

/// Who sleeps.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    count: u32,
    /// The latest that one of them gets up by itself.
    until: Tick,
    alarmed: bool,
    bed: Option<Arc<Bed>>,
}

/// A sleep that a thread is about to begin, without holding the endpoint.
#[derive(Debug)]
#[must_use = "who lay down must get up"]
pub struct Nap {
    /// None when there are no descriptors left to make one of.
    bed: Option<Arc<Bed>>,
    limit: Duration,
}

impl Nap {
    /// The longest that it may last.
    #[must_use]
    pub fn limit(&self) -> Duration {
        if self.bed.is_some() { self.limit } else { Duration::ZERO }
    }

    /// What to sleep on, for callers with a sleep of their own.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.bed.iter().flat_map(|bed| bed.links.iter().chain([&bed.alarm])).map(AsFd::as_fd)
    }

    /// Sleeps until something may have happened at one of the endpoints, and no longer than all of
    /// them allow.
    pub fn sleep<'a>(naps: impl IntoIterator<Item = &'a Self> + Clone) {
        let Some(limit) = naps.clone().into_iter().map(|nap| nap.limit).min() else { return };
        let beds: Option<Vec<&Bed>> = naps.into_iter().map(|nap| nap.bed.as_deref()).collect();
        let Some(beds) = beds else { return std::thread::yield_now() };
        let fds = beds.iter().flat_map(|bed| bed.links.iter().chain([&bed.alarm]));
        let mut polled: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        // A failed or interrupted poll only means to look again.
        let _ = poll(&mut polled, Some(&limit));
    }
}

impl Sleepers {
    /// One more lies down, until `now + limit` at most; what has woken others wakes it, too. None when something has
    /// arrived in the meantime: then it has got up again.
    pub(crate) fn lie_down(
        &mut self,
        links: &mut LinkSet,
        now: Tick,
        limit: Duration,
    ) -> Option<Nap> {
        if self.alarmed {
            // Others have not got up yet, and may not for long: their alarm would wake this one, too,
            // again and again.
            self.leave_bed();
        }
        let mut arrived = false;
        for (_, link) in links.whole() {
            arrived |= link.arm(true);
        }
        self.count += 1;
        if arrived {
            self.get_up(links);
            return None;
        }
        self.until = self.until.max(now + limit);
        if self.bed.is_none() {
            self.bed = Bed::made(links).ok().map(Arc::new);
        }
        Some(Nap { bed: self.bed.clone(), limit })
    }

    /// A sleep is over.
    pub(crate) fn get_up(&mut self, links: &mut LinkSet) {
        self.count -= 1;
        if self.count > 0 {
            return; // the others still want signals, and an alarm is for all of them
        }
        for (_, link) in links.whole() {
            link.arm(false);
        }
        self.until = Tick::ZERO;
        if std::mem::take(&mut self.alarmed)
            && let Some(bed) = &self.bed
        {
            let _ = rustix::io::read(&bed.alarm, &mut [0; 8]);
        }
    }

    /// What wakes sleepers would wake those who come, too, for ever: a link that has failed, or an alarm
    /// that is the others'. They lie down without it.
    pub(crate) fn leave_bed(&mut self) {
        self.alarm();
        self.bed = None;
        // That was for those in the old bed.
        self.alarmed = false;
    }

    /// Wakes all of them.
    pub(crate) fn alarm(&mut self) {
        if self.count > 0
            && let Some(bed) = &self.bed
            && !std::mem::replace(&mut self.alarmed, true)
        {
            let _ = rustix::io::write(&bed.alarm, &1u64.to_ne_bytes());
        }
    }

    /// How many threads are asleep, or about to be.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether one of them may still sleep at that time.
    pub(crate) fn sleep_past(&self, at: Tick) -> bool {
        at < self.until
    }
}

impl Bed {
    fn made(links: &mut LinkSet) -> io::Result<Self> {
        let links = links.whole().flat_map(|(_, link)| link.wait_fds());
        let links = links.map(|fd| {
            // SAFETY: the links own these descriptors, and live through this call.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fd.try_clone_to_owned()
        });
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { links: links.collect::<io::Result<_>>()?, alarm })
    }
}
