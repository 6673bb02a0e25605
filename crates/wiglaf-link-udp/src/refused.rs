//! Destinations that answered with "port unreachable".

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use wiglaf_link::Unreachable;

use crate::sys;

/// Findings kept until they are asked for; a peer that stays dead is found
/// again, so forgetting the oldest does no harm.
const FINDINGS_MAX: usize = 64;

/// How many reports are taken from a socket at once.
const REPORTS_MAX: usize = 64;

/// The findings of one socket.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    found: VecDeque<Unreachable>,
}

impl Refused {
    /// Empties the socket's error queue.
    pub(crate) fn collect(&mut self, socket: BorrowedFd<'_>) {
        for _ in 0..REPORTS_MAX {
            match sys::take_report(socket) {
                Ok(Some((libc::ECONNREFUSED, found))) => self.add(found),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }

    /// The oldest finding not yet asked for.
    pub(crate) fn take(&mut self) -> Option<Unreachable> {
        self.found.pop_front()
    }

    fn add(&mut self, found: Unreachable) {
        if self.found.contains(&found) {
            return;
        }
        if self.found.len() == FINDINGS_MAX {
            self.found.pop_front();
        }
        self.found.push_back(found);
    }
}
