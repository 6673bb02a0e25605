//! The ranks of a communicator: the leaders of the hosts form a group, and the MPI joins the ranks of a host.

use std::ffi::c_int;
use std::net::Ipv4Addr;

use crate::behind::{self, Any, Family};
use crate::group::{Group, GroupError, Progress};
use crate::layout::{Buffer, Code, Elements};

/// Which rank is where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// The host of each rank, numbered as they first occur.
    host_of: Vec<u16>,
    /// Its rank among those of its host; the first is the leader.
    place_of: Vec<u16>,
    /// How many ranks the host has that has most.
    most: usize,
    hosts: usize,
}

impl Places {
    /// `ips` has each rank's host.
    pub(crate) fn new(ips: &[Ipv4Addr]) -> Self {
        let mut hosts: Vec<(Ipv4Addr, u16)> = Vec::new();
        let (mut host_of, mut place_of) = (Vec::new(), Vec::new());
        for ip in ips {
            let known = hosts.iter().position(|(host, _)| host == ip);
            let host = known.unwrap_or_else(|| {
                hosts.push((*ip, 0));
                hosts.len() - 1
            });
            host_of.push(host as u16);
            place_of.push(hosts[host].1);
            hosts[host].1 += 1;
        }
        let most = hosts.iter().map(|(_, ranks)| usize::from(*ranks)).max().unwrap_or(0);
        Self { host_of, place_of, most, hosts: hosts.len() }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.host_of.len()
    }

    pub(crate) fn hosts(&self) -> usize {
        self.hosts
    }

    /// Whether some host has several.
    pub(crate) fn shares(&self) -> bool {
        self.most > 1
    }

    pub(crate) fn host(&self, rank: usize) -> u16 {
        self.host_of[rank]
    }

    pub(crate) fn is_leader(&self, rank: usize) -> bool {
        self.place_of[rank] == 0
    }

    /// The leaders, by host.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = usize> {
        (0..self.place_of.len()).filter(|rank| self.is_leader(*rank))
    }
}

/// The ranks of a host that has several, as a communicator.
#[derive(Debug)]
pub(crate) struct Local(pub(crate) Any);

// SAFETY: the handle is only handed to the MPI, under the lock of the communicator's state.
unsafe impl Send for Local {}

impl Local {
    fn barrier(&self) {
        // SAFETY: a communicator of ours; all its ranks are in this call.
        unsafe { behind::barrier(self.0) };
    }

    fn broadcast(&self, bytes: &mut [u8], root: u16) {
        let (buffer, count) = (bytes.as_mut_ptr().cast(), bytes.len() as c_int);
        // SAFETY: as above; the bytes are live.
        unsafe { behind::bcast(buffer, count, Family::get().byte(), root.into(), self.0) };
    }

    /// Gathers the bytes of all ranks of the host at the leader.
    fn gather(&self, own: &[u8], all: &mut [u8]) {
        let (byte, count) = (Family::get().byte(), own.len() as c_int);
        let (send, receive) = (own.as_ptr().cast_mut().cast(), all.as_mut_ptr().cast());
        // SAFETY: as above; there is room for each.
        unsafe { behind::gather(send, count, byte, receive, count, byte, 0, self.0) };
    }
}

/// The ranks of a communicator as one of them sees them.
#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) rank: usize,
    pub(crate) places: Places,
    /// At a leader.
    pub(crate) group: Option<Group>,
    /// Of hosts with several ranks, at each rank of all hosts.
    pub(crate) local: Option<Local>,
}

type Result = std::result::Result<(), GroupError>;

impl Team {
    pub(crate) fn barrier(&mut self, progress: &mut Progress<'_>) -> Result {
        if let Some(local) = &self.local {
            local.barrier();
        }
        if let Some(group) = &mut self.group {
            group.barrier(progress)?;
        }
        if let Some(local) = &self.local {
            local.barrier();
        }
        Ok(())
    }

    /// The bytes of rank `root` to all.
    pub(crate) fn broadcast(
        &mut self,
        bytes: &mut [u8],
        root: usize,
        progress: &mut Progress<'_>,
    ) -> Result {
        let is_here = self.places.host(root) == self.places.host(self.rank);
        if let (true, Some(local)) = (is_here, &self.local) {
            local.broadcast(bytes, self.places.place_of[root]);
        }
        if let Some(group) = &mut self.group {
            group.broadcast(bytes, self.places.host(root), progress)?;
        }
        if let (false, Some(local)) = (is_here, &self.local) {
            local.broadcast(bytes, 0);
        }
        Ok(())
    }

    /// Whether an operation may be done first within hosts and then between them.
    ///
    /// # Safety
    /// `op` is an operation's handle.
    pub(crate) unsafe fn may_reduce(&self, op: Any) -> bool {
        let mut commutes = 0;
        // SAFETY: the caller's promise; the answer goes to a live variable.
        unsafe { behind::op_commutative(op, &raw mut commutes) };
        self.local.is_none() || commutes != 0
    }

    /// What the elements at `own` of all ranks come to, as bytes; `None` where the MPI found something wrong, which
    /// all ranks then know.
    ///
    /// # Safety
    /// `own` holds these elements, `op` is an operation on them, and `comm` a communicator.
    pub(crate) unsafe fn reduce(
        &mut self,
        elements: &Elements,
        own: Any,
        (op, comm): (Any, Any),
        progress: &mut Progress<'_>,
    ) -> std::result::Result<Option<Vec<u8>>, GroupError> {
        let said = match &self.local {
            // SAFETY: the caller's promise.
            None => unsafe { elements.pack(own, comm) },
            // SAFETY: the caller's promise; all ranks of the host are in this call.
            Some(local) => unsafe {
                let mut outcome = Buffer::new(elements);
                let (count, datatype) = (elements.count, elements.datatype);
                let into = outcome.buffer();
                Code::check(behind::reduce(own, into, count, datatype, op, 0, local.0))
                    .and_then(|()| elements.pack(into, comm))
            },
        };
        // A byte before the elements tells whether the MPI has reported an error.
        let mut report = vec![u8::from(said.is_ok())];
        report.extend(said.unwrap_or_else(|_| vec![0; elements.len]));
        let mut outcome = vec![0; 1 + elements.len];
        let combine = &mut |said: &[Vec<u8>], into: &mut [u8]| {
            let all_right = said.iter().all(|said| said[0] == 1);
            let said: Vec<&[u8]> = said.iter().map(|said| &said[1..]).collect();
            // SAFETY: the caller's promise; each has said so many bytes.
            let mut done = || unsafe { elements.reduce(&said, &mut into[1..], (op, comm)) };
            into[0] = u8::from(all_right && done().is_ok());
        };
        if let Some(group) = &mut self.group {
            group.combine(&report, &mut outcome, combine, progress)?;
        }
        if let Some(local) = &self.local {
            local.broadcast(&mut outcome, 0);
        }
        Ok((outcome[0] == 1).then(|| outcome.split_off(1)))
    }

    /// Bytes of a host's contribution where each rank has `len`.
    pub(crate) fn contribution_len(&self, len: usize) -> usize {
        len * self.places.most
    }

    /// The bytes of each rank, as many of each, by rank.
    pub(crate) fn gather(
        &mut self,
        own: Vec<u8>,
        progress: &mut Progress<'_>,
    ) -> std::result::Result<Vec<u8>, GroupError> {
        let len = own.len();
        let said = match &self.local {
            None => own,
            Some(local) => {
                let mut said = vec![0; self.contribution_len(len)];
                local.gather(&own, &mut said);
                said
            }
        };
        let Places { host_of, place_of, .. } = &self.places;
        let mut all = vec![0; len * host_of.len()];
        let combine = &mut |said: &[Vec<u8>], into: &mut [u8]| {
            let places = host_of.iter().zip(place_of);
            for ((host, place), into) in places.zip(into.chunks_mut(len)) {
                let at = usize::from(*place) * len;
                into.copy_from_slice(&said[usize::from(*host)][at..at + len]);
            }
        };
        if let Some(group) = &mut self.group {
            group.combine(&said, &mut all, combine, progress)?;
        }
        if let Some(local) = &self.local {
            local.broadcast(&mut all, 0);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_rank_of_each_host_is_its_leader() {
        let ip = |host| Ipv4Addr::new(10, 0, 0, host);
        let places = Places::new(&[ip(7), ip(3), ip(7), ip(9), ip(7), ip(3)]);
        assert_eq!(places.host_of, [0, 1, 0, 2, 0, 1]);
        assert_eq!(places.place_of, [0, 0, 1, 0, 2, 1]);
        assert_eq!((places.hosts(), places.most, places.shares()), (3, 3, true));
        assert_eq!(places.leaders().collect::<Vec<_>>(), [0, 1, 3]);
        assert!(!Places::new(&[ip(1), ip(2)]).shares());
    }
}
