//! What is done to a host, whatever switches it: first what is clean, then what is sure, and never believed
//! before it is seen.

use std::time::{Duration, Instant};

use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::hosts::{HostSpec, Network};
use wiglaf_cluster::power::{Kind, Mac, Power};
use wiglaf_node::client::{Node, NodeCommand, Place};

use crate::bmc::{Bmc, Sensor, State};
use crate::guard::{self, Reach};
use crate::ipmi::Ipmi;
use crate::redfish::Redfish;
use crate::{magic, record};

/// How often a state is asked for while it changes.
const PAUSE: Duration = Duration::from_millis(500);
/// Shuts down cleanly: root does, and who may by sudo without a password; otherwise it says [`REFUSED`]. It is not waited for.
const SHUTDOWN: &str = "for s in '' 'sudo -n '; do for c in 'systemctl poweroff' 'shutdown -h now' poweroff; do \
                        $s$c >/dev/null 2>&1 && exit 0; done; done; echo refused";
const REFUSED: &[u8] = b"refused\n";

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Power on.
    On,
    /// Power off, after a clean shutdown if the host answers.
    Off,
    /// Off, and on again.
    Cycle,
    /// A reset at once.
    Reset,
    /// A magic packet, whatever else the host has.
    Wake,
}

/// Which hosts keep their power whatever is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The machine one sits at, and those on which another user's job runs.
    InUse,
    /// These, and all that answer.
    WhatAnswers,
    /// None.
    Nothing,
}

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For a state to change after the BMC was asked.
    pub change: Duration,
    /// For a clean shutdown.
    pub shutdown: Duration,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// How the host is now.
    pub state: State,
    /// In which steps it came to that.
    pub steps: Vec<&'static str>,
}

/// What the cluster file says of a host's power.
fn power_of(spec: &HostSpec) -> Result<&Power> {
    spec.power.as_ref().ok_or_else(|| {
        Error::new("the cluster file says nothing of its power; add `power = { kind = … }` to its section [node.NAME]")
    })
}

fn bmc_of(power: &Power) -> Result<Option<Box<dyn Bmc>>> {
    Ok(match power.kind {
        Kind::Ipmi => Some(Box::new(Ipmi::new(power)?)),
        Kind::Redfish => Some(Box::new(Redfish::new(power)?)),
        Kind::WakeOnLan | Kind::Ssh => None,
    })
}

fn node_of(spec: &HostSpec) -> Node {
    Node::new(&spec.name, Place::Host(spec.target.clone()))
}

/// Whether the host has power, as its BMC says, or as it answers.
///
/// # Errors
/// When its BMC does not say.
pub fn status(spec: &HostSpec) -> Result<State> {
    let power = power_of(spec)?;
    match bmc_of(power)? {
        Some(bmc) => bmc.state(),
        None => Ok(answering(spec)),
    }
}

/// How a host without a BMC is. Its MAC address is remembered for when it is off.
fn answering(spec: &HostSpec) -> State {
    if let Some(address) = spec.address {
        // So that the kernel asks for it.
        let asked =
            std::net::UdpSocket::bind("0.0.0.0:0").and_then(|s| s.send_to(b"", (address, 9)));
        let _ = asked;
    }
    let is_up = node_of(spec).hello().is_ok();
    if let Some(mac) = spec.address.and_then(magic::neighbour) {
        record::keep("mac", &spec.name, &mac.to_string());
    }
    if is_up { State::On } else { State::Silent }
}

/// What the host's BMC measures.
///
/// # Errors
/// When it has none, or it does not say.
pub fn sensors(spec: &HostSpec) -> Result<Vec<Sensor>> {
    match bmc_of(power_of(spec)?)? {
        Some(bmc) => bmc.sensors(),
        None => Err(Error::new("it has no BMC, and so no sensors that could be asked from here")),
    }
}

/// Switches a host.
///
/// # Errors
/// When it must not be switched, or is not as wanted afterwards.
pub fn switch(
    spec: &HostSpec,
    network: &Network,
    wanted: Wanted,
    limits: Limits,
    leave: Leave,
) -> Result<Done> {
    let power = power_of(spec)?;
    let node = node_of(spec);
    let mut job = Job { spec, network, bmc: None, node, limits, steps: Vec::new() };
    if wanted == Wanted::Wake {
        job.wake(power)?;
        return Ok(Done { state: answering(spec), steps: job.steps });
    }
    job.bmc = bmc_of(power)?;
    let state = match wanted {
        Wanted::On => job.on(power)?,
        Wanted::Off => job.off(leave)?,
        Wanted::Cycle => {
            if job.bmc.is_none() && power.kind == Kind::Ssh {
                return Err(Error::new(
                    "nothing could turn it on again: its power is `kind = \"ssh\"`",
                ));
            }
            job.mac(power)
                .map(drop)
                .or_else(|error| if job.bmc.is_some() { Ok(()) } else { Err(error) })?;
            job.off(leave)?;
            job.on(power)?
        }
        _ => job.reset(power, leave)?,
    };
    Ok(Done { state, steps: job.steps })
}

struct Job<'a> {
    spec: &'a HostSpec,
    network: &'a Network,
    bmc: Option<Box<dyn Bmc>>,
    node: Node,
    limits: Limits,
    steps: Vec<&'static str>,
}

impl Job<'_> {
    fn state(&self) -> Result<State> {
        match &self.bmc {
            Some(bmc) => bmc.state(),
            None => Ok(answering(self.spec)),
        }
    }

    /// Waits for a state; `false` where it does not come in time. That a BMC does not answer for a moment, as
    /// some do while they switch, is no end.
    fn comes(&self, wanted: State, limit: Duration) -> bool {
        let wanted = match (&self.bmc, wanted) {
            (None, State::Off) => State::Silent,
            (_, wanted) => wanted,
        };
        let began = Instant::now();
        loop {
            if self.state() == Ok(wanted) {
                return true;
            }
            if began.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn must_come(&self, wanted: State, limit: Duration) -> Result<State> {
        if self.comes(wanted, limit) {
            return self.state();
        }
        let seconds = limit.as_secs();
        Err(Error::new(match &self.bmc {
            Some(bmc) => {
                let says = bmc.state().map_or("nothing".to_owned(), |state| format!("\"{state}\""));
                format!(
                    "its BMC took the command and still says {says} after {seconds} s, not \"{wanted}\"; look at the \
                     host, or restart its BMC"
                )
            }
            None => format!("it is not {wanted} after {seconds} s; look at the host"),
        }))
    }

    fn mac(&self, power: &Power) -> Result<Mac> {
        let known = || record::recall("mac", &self.spec.name)?.parse().ok();
        let found =
            power.mac.or_else(|| self.spec.address.and_then(magic::neighbour)).or_else(known);
        found.ok_or_else(|| {
            Error::new(
                "its MAC address is not known; write it into the cluster file as `mac`, or run `wiglaf power \
                 status` once while it is on",
            )
        })
    }

    fn wake(&mut self, power: &Power) -> Result<()> {
        let ways = magic::wake(self.mac(power)?, self.network.data)?;
        self.steps.push(ways);
        Ok(())
    }

    fn on(&mut self, power: &Power) -> Result<State> {
        match &self.bmc {
            Some(bmc) if bmc.state()? == State::On => return Ok(State::On),
            Some(bmc) => {
                bmc.on()?;
                self.steps.push("on by its BMC");
            }
            None if self.state()? == State::On => return Ok(State::On),
            None if power.kind == Kind::Ssh => {
                return Err(Error::new("nothing can turn it on: its power is `kind = \"ssh\"`"));
            }
            None => {
                self.wake(power)?;
                return self.must_come(State::On, self.limits.shutdown);
            }
        }
        self.must_come(State::On, self.limits.change)
    }

    /// Whether the host may lose its power.
    fn may(&self, leave: Leave) -> Result<Reach> {
        let reach = guard::check(self.spec, &self.node, leave == Leave::Nothing)?;
        match (leave, reach) {
            (Leave::WhatAnswers, Reach::Answers) => Err(Error::new(
                "it answers, so it does not hang; leave --if-silent out if you mean it",
            )),
            _ => Ok(reach),
        }
    }

    fn off(&mut self, leave: Leave) -> Result<State> {
        if let Some(bmc) = &self.bmc
            && bmc.state()? == State::Off
        {
            return match leave {
                Leave::WhatAnswers => {
                    Err(Error::new("it is off, so it does not hang; use `wiglaf power on`"))
                }
                _ => Ok(State::Off),
            };
        }
        let reach = self.may(leave)?;
        if self.bmc.is_none() && reach == Reach::Silent {
            return Ok(State::Silent);
        }
        let shut_down = || self.node.output(&NodeCommand::new(["sh", "-c", SHUTDOWN]), b"");
        let answer = (reach == Reach::Answers).then(shut_down);
        let is_told = matches!(&answer, Some(Ok(said)) if said != REFUSED);
        let Some(bmc) = &self.bmc else {
            // A host that shuts down may cut the connection before the command has ended; whether it does is seen below.
            if !is_told && !matches!(answer, Some(Err(_))) {
                return Err(Error::new(
                    "it cannot be shut down over ssh: that takes root there, or sudo without a password for \
                     `systemctl poweroff`",
                ));
            }
            self.steps.push("clean shutdown over ssh");
            return self.must_come(State::Off, self.limits.shutdown);
        };
        // Without the right to shut down, as its power button would.
        let is_asked = is_told || reach == Reach::Answers && bmc.soft_off().is_ok();
        if is_asked {
            self.steps.push(if is_told {
                "clean shutdown over ssh"
            } else {
                "shutdown by its BMC"
            });
            if self.comes(State::Off, self.limits.shutdown) {
                return Ok(State::Off);
            }
        }
        bmc.off()?;
        self.steps.push("power cut by its BMC");
        self.must_come(State::Off, self.limits.change)
    }

    fn reset(&mut self, power: &Power, leave: Leave) -> Result<State> {
        self.may(leave)?;
        let Some(bmc) = &self.bmc else {
            return Err(Error::new("it has no BMC that could reset it; use `wiglaf power cycle`"));
        };
        if bmc.state()? == State::Off {
            return Err(Error::new("it is off; use `wiglaf power on`"));
        }
        if bmc.reset()? {
            self.steps.push("reset by its BMC");
            return self.must_come(State::On, self.limits.change);
        }
        bmc.off()?;
        self.must_come(State::Off, self.limits.change)?;
        self.steps.push("power cut by its BMC, which knows no reset");
        self.on(power)
    }
}
