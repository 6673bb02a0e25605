//! What all BMCs can do, whatever they speak.

use std::fmt;

use wiglaf_base::error::Result;

/// Whether a host has power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is on, says its BMC, or it answers.
    On,
    /// It is off, says its BMC.
    Off,
    /// It has no BMC to ask, and does not answer.
    Silent,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Silent => "does not answer",
        })
    }
}

/// One reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sensor {
    /// Which of the BMC's: names come twice.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it reads; some read nothing.
    pub reading: Option<String>,
    /// The unit of the reading.
    pub unit: String,
}

/// A BMC.
pub(crate) trait Bmc {
    /// What it says of the host's power.
    fn state(&self) -> Result<State>;
    /// Power on.
    fn on(&self) -> Result<()>;
    /// Power off at once.
    fn off(&self) -> Result<()>;
    /// Asks the host's system to shut down, as the button does.
    fn soft_off(&self) -> Result<()>;
    /// Reset at once; `false` where it knows none.
    fn reset(&self) -> Result<bool>;
    /// Temperatures, fans and the like.
    fn sensors(&self) -> Result<Vec<Sensor>>;
}
