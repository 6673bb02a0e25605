//! Who takes part, and how one sees that it really did.
//!
//! Settings alone prove nothing: an MPI that does not like one steps back to
//! another transport and says nothing. So each contender's first run is asked
//! to tell what it chose.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::launch::{self, Job, Launcher, Settings, Transport};
use crate::{Progress, interleave};

/// Who takes part in an MPI comparison, in the order of the tables.
pub const CONTENDERS: [Transport; 4] =
    [Transport::Wiglaf, Transport::Tcp, Transport::Ucx, Transport::OfiTcp];

/// Who takes part within a node, where everybody has shared memory.
pub const SAME_NODE: [Transport; 3] = [Transport::Wiglaf, Transport::Vader, Transport::UcxShm];

/// Settings that make a transport tell what it chose, for one short run that
/// is not measured.
pub fn talkative(transport: Transport) -> Settings {
    let pairs: &[(&str, &str)] = match transport {
        Transport::Tcp | Transport::Vader => &[("OMPI_MCA_btl_base_verbose", "20")],
        Transport::Ucx | Transport::UcxShm => &[("UCX_LOG_LEVEL", "info")],
        Transport::Wiglaf
        | Transport::WiglafUdp
        | Transport::WiglafPacket
        | Transport::WiglafXdp
        | Transport::WiglafXdpNative
        | Transport::WiglafMulticast
        | Transport::OfiTcp
        | Transport::OfiRxd => &[("OMPI_MCA_mtl_ofi_verbose", "1")],
    };
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const TCP_BY_NETWORK: &str = "btl: tcp: Found match:";

/// The line of a talkative run that says what carried the messages.
pub fn evidence(transport: Transport, said: &str) -> Option<String> {
    let (sign, wanted) = match transport {
        // Told an interface (emulated nodes) or a network (hosts), it says so in other words.
        Transport::Tcp if said.contains(TCP_BY_NETWORK) => (TCP_BY_NETWORK, ""),
        Transport::Tcp => ("btl: tcp: Using interface:", ""),
        Transport::Ucx => ("ep_cfg[", "tag(tcp/"),
        Transport::Vader => ("mca: bml: Using vader btl for send to", ""),
        Transport::UcxShm => ("ep_cfg[", "tag(sysv/"),
        Transport::OfiTcp => ("mtl:ofi:prov:", "tcp;ofi_rxm"),
        Transport::OfiRxd => ("mtl:ofi:prov:", "udp;ofi_rxd"),
        Transport::Wiglaf
        | Transport::WiglafUdp
        | Transport::WiglafPacket
        | Transport::WiglafXdp
        | Transport::WiglafXdpNative
        | Transport::WiglafMulticast => ("mtl:ofi:prov:", "wiglaf"),
    };
    let line = said.lines().find(|l| l.contains(sign) && l.contains(wanted))?;
    Some(line[line.find(sign)?..].trim().to_owned())
}

/// Someone who could not take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Who.
    pub transport: Transport,
    /// Why.
    pub reason: String,
}

/// Who takes part in what fails for some: whoever does is struck off, which is a result.
pub(crate) struct Field {
    /// Those who began, with all that sets each apart.
    pub(crate) entrants: Vec<(Transport, Settings)>,
    /// Those who did not, or were struck off.
    pub(crate) absent: Vec<Absent>,
}

impl Field {
    /// Those for whom there are settings.
    pub(crate) fn gather(launcher: &dyn Launcher, transports: &[Transport]) -> Self {
        let (mut entrants, mut absent) = (Vec::new(), Vec::new());
        for &transport in transports {
            match launcher.settings(transport) {
                Ok(settings) => entrants.push((transport, settings)),
                Err(reason) => absent.push(Absent { transport, reason }),
            }
        }
        Self { entrants, absent }
    }

    /// Whether it has not been struck off.
    pub(crate) fn has(&self, transport: Transport) -> bool {
        !self.absent.iter().any(|a| a.transport == transport)
    }

    /// So many rounds of `one`, which gets the number of an entrant and who it is.
    pub(crate) fn run(
        &mut self,
        rounds: usize,
        progress: Progress<'_>,
        one: &mut dyn FnMut(usize, Transport, &Settings) -> Result<()>,
    ) {
        for (round, turns) in interleave::rounds(self.entrants.len(), rounds).iter().enumerate() {
            for &turn in turns {
                let (transport, settings) = &self.entrants[turn];
                let transport = *transport;
                if !self.has(transport) {
                    continue;
                }
                progress(&format!("round {} of {rounds}: {}", round + 1, transport.label()));
                if let Err(error) = one(turn, transport, settings) {
                    self.absent.push(Absent { transport, reason: error.to_string() });
                }
            }
        }
    }
}

/// A measuring program that everybody runs in the same place.
pub(crate) struct Work<'a> {
    pub(crate) launcher: &'a dyn Launcher,
    pub(crate) ranks: usize,
    pub(crate) program: &'a Path,
    /// Where it runs.
    pub(crate) dir: &'a Path,
    /// Who needs longer is stuck.
    pub(crate) time_max: Duration,
}

impl Work<'_> {
    /// So many nodes have a rank.
    pub(crate) fn nodes(&self) -> usize {
        self.launcher.node_count().min(self.ranks)
    }

    /// One run; what it printed.
    pub(crate) fn run(
        &self,
        transport: Transport,
        settings: &Settings,
        args: &[OsString],
    ) -> Result<String> {
        let (ranks, nodes) = (self.ranks, self.nodes());
        let (program, dir) = (self.program, self.dir);
        let job = Job { transport, settings, ranks, nodes, program, args, env: &[], dir };
        let output = launch::run(self.launcher, &job, self.time_max)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// When nobody is left: all that is known of why.
pub(crate) fn nobody(absent: &[Absent]) -> BenchError {
    let reasons = absent.iter().map(|a| format!("{}: {}", a.transport.label(), a.reason));
    BenchError::NoContender(reasons.collect::<Vec<_>>().join("; "))
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not take part: {}", self.transport.label(), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_is_about_the_right_transport() {
        let log = "[a:1] mtl_ofi_component.c:735: fi_getinfo(): Success\n\
                   [a:1] mtl_ofi_component.c:337: mtl:ofi:prov: tcp;ofi_rxm\n";
        let found = evidence(Transport::OfiTcp, log);
        assert_eq!(found.as_deref(), Some("mtl:ofi:prov: tcp;ofi_rxm"));
        assert_eq!(evidence(Transport::Wiglaf, log), None);
        for tcp in ["btl: tcp: Using interface: eth0", "btl: tcp: Found match: 192.168.77.1 (eno1)"]
        {
            let log = format!("[a:1] select: initializing btl component tcp\n[a:1] {tcp}\n");
            assert_eq!(evidence(Transport::Tcp, &log).as_deref(), Some(tcp));
        }
        let ucx = "UCX  INFO    ep_cfg[0]: tag(self/memory0 tcp/lo)\n\
                   UCX  INFO    ep_cfg[1]: tag(tcp/lo)\n";
        assert_eq!(evidence(Transport::Ucx, ucx).as_deref(), Some("ep_cfg[1]: tag(tcp/lo)"));
    }
}
