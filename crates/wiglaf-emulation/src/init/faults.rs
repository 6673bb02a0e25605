//! The faults of a switch's ports, carried out: programs in the ports' paths
//! (TCX, Linux 6.6), whose links the switch's init holds, so that they go
//! with it at the latest.

mod detour;
mod program;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::random;
use wiglaf_bpf::{Attachment, Hook, Kind, Map, Program};
use wiglaf_cluster::shape::SWITCH;

use self::detour::{Detour, Exit};
use self::program::{COUNTERS, Counter, Site, assemble};
use crate::config::NodeConfig;
use crate::fault::{self, Counts, Faults, PortFaults, PortReport, interface_index, is_down};
use crate::wire::{DETOUR, DETOUR_END, mac_octets, port};

/// All ports of a switch; none on a node.
#[derive(Debug)]
pub(super) struct Ports {
    /// The hardware address behind each port.
    macs: Vec<[u8; 6]>,
    faulty: BTreeMap<usize, Faulty>,
    /// The index of the interface that leads to the detour, once that runs.
    detour: Option<u32>,
    hold_ns: Arc<AtomicU64>,
}

/// A port with programs.
#[derive(Debug)]
struct Faulty {
    faults: PortFaults,
    from: Attached,
    to: Attached,
}

/// A program at work. Dropping it takes it out of the path.
#[derive(Debug)]
struct Attached {
    counters: Map,
    _attachment: Attachment,
}

impl Ports {
    pub(super) fn new(config: &NodeConfig) -> Self {
        let is_switch = config.node == SWITCH;
        let macs =
            config.hosts.iter().filter(|_| is_switch).map(|(address, _)| mac_octets(*address));
        Self {
            macs: macs.collect(),
            faulty: BTreeMap::new(),
            detour: None,
            hold_ns: Arc::new(AtomicU64::new(fault::HOLD_DEFAULT.as_nanos() as u64)),
        }
    }

    fn check(&self, index: usize) -> Result<()> {
        match index < self.macs.len() {
            true => Ok(()),
            false => Err(Error::new(format!("there is no switch port {}", index + 1))),
        }
    }

    /// Makes a port do this instead of what it did.
    pub(super) fn set(
        &mut self,
        index: usize,
        faults: Option<PortFaults>,
        hold: Duration,
    ) -> Result<()> {
        self.check(index)?;
        let Some(faults) = faults else {
            self.faulty.remove(&index);
            return Ok(());
        };
        self.hold_ns.store(u64::try_from(hold.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if faults.reorders() && self.detour.is_none() {
            self.detour = Some(self.start_detour()?);
        }
        let name = port(index);
        let interface = interface_index(&name)?;
        let attach = |hook, faults: &Faults| {
            self.attach(hook, interface, faults).map_err(|error| refused(&name, &error))
        };
        let from = attach(Hook::Ingress, &faults.from)?;
        let to = attach(Hook::Egress, &faults.to)?;
        // The old programs leave only now: no frame slips through between.
        self.faulty.insert(index, Faulty { faults, from, to });
        Ok(())
    }

    fn attach(&self, hook: Hook, interface: u32, faults: &Faults) -> io::Result<Attached> {
        use std::os::fd::{AsFd, AsRawFd};
        let counters = Map::array("wiglaf_faults", COUNTERS)?;
        let map = counters.as_fd().as_raw_fd();
        let site = Site { hook, port: interface, detour: self.detour, counters: map };
        let instructions = assemble(faults, &site);
        let program = Program::load(Kind::TrafficControl, "wiglaf_faults", &instructions)?;
        let attachment = program.attach(interface, hook)?;
        Ok(Attached { counters, _attachment: attachment })
    }

    /// Starts the thread that reordered frames pass through.
    fn start_detour(&self) -> Result<u32> {
        let exits = self.macs.iter().enumerate();
        let exits =
            exits.map(|(index, mac)| Exit { mac: *mac, name: port(index), port: 0 }).collect();
        let end = interface_index(DETOUR_END)?;
        let detour = Detour::open(end, exits, random::nonzero()?)
            .cannot(|| "open the path of reordered frames".to_owned())?;
        let hold_ns = Arc::clone(&self.hold_ns);
        std::thread::Builder::new()
            .name("detour".to_owned())
            .spawn(move || detour.run(&|| Duration::from_nanos(hold_ns.load(Ordering::Relaxed))))
            .cannot(|| "start the thread of reordered frames".to_owned())?;
        interface_index(DETOUR)
    }

    /// What these ports do and did.
    pub(super) fn report(&self, indices: &[usize]) -> Result<Vec<PortReport>> {
        if indices.len() > self.macs.len() {
            return Err(Error::new("there are not so many switch ports"));
        }
        let report = |index: &usize| {
            self.check(*index)?;
            let faulty = self.faulty.get(index);
            Ok(PortReport {
                faults: faulty.map(|f| f.faults),
                from: faulty.map(|f| f.from.counts()).unwrap_or_default(),
                to: faulty.map(|f| f.to.counts()).unwrap_or_default(),
                is_down: is_down(*index),
            })
        };
        indices.iter().map(report).collect()
    }
}

impl Attached {
    fn counts(&self) -> Counts {
        // The map has these entries; there is nothing that could fail.
        let value = |counter| self.counters.get(counter as u32).unwrap_or(0);
        Counts {
            frames: value(Counter::Frames),
            dropped: value(Counter::Dropped),
            corrupted: value(Counter::Corrupted),
            duplicated: value(Counter::Duplicated),
            reordered: value(Counter::Reordered),
        }
    }
}

fn refused(port: &str, error: &io::Error) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM) => "; faults need root with CAP_BPF",
        Some(libc::EINVAL | libc::ENOSYS) => "; faults need Linux 6.6 with BPF",
        _ => "",
    };
    Error::new(format!("cannot put faults on {port}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_reported_once_for_each_that_there_is_at_most() {
        let ports = Ports {
            macs: vec![[0; 6]; 2],
            faulty: BTreeMap::new(),
            detour: None,
            hold_ns: Arc::default(),
        };
        assert_eq!(ports.report(&[0, 1]).unwrap().len(), 2);
        assert!(ports.report(&[2]).is_err());
        assert!(ports.report(&[0; 3]).is_err(), "a long list of one");
    }
}
