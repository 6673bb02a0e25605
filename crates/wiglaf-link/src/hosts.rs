//! Whether machines are there, whatever the processes on them do.
//!
//! The kernel of a machine answers for all of its processes, also for one that is stopped or computes. So
//! silence of a process says little, and silence of its machine much.

use std::net::Ipv4Addr;

/// What is known of a machine that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Its kernel has answered.
    Alive,
    /// It has, to a datagram: none of the firewalls on the way drops them all.
    TakesDatagrams,
    /// Nobody on its network knows its link address, or a router says that there is no way to it.
    NoWay,
}

/// Asks machines whether they are there.
pub trait Hosts: Send {
    /// Asks the machine at `ip`. It does not block, and failures are no answers.
    fn ask(&mut self, ip: Ipv4Addr);

    /// The next answer that has come.
    fn take(&mut self) -> Option<(Ipv4Addr, Answer)>;
}
