//! What may be tuned, as users ask for it and as the helper answers.

use serde::{Deserialize, Serialize};

/// Longest delay of an arrival, and longest time of waking, that can be asked for, in microseconds.
pub const MICROSECONDS_MAX: u16 = 1000;

/// What is wanted of a host's cards and processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wants {
    /// Cards keep an arrival to themselves for so many microseconds, and do not adapt that.
    pub rx_usecs: Option<u16>,
    /// No Energy Efficient Ethernet. The card loses its carrier for some seconds.
    pub eee_off: bool,
    /// Rings as long as the card can have them. The card loses its carrier, too.
    pub rings_max: bool,
    /// Processors rest in states only from which they wake within so many microseconds.
    pub awake_us: Option<u16>,
}

impl Wants {
    /// What makes messages fast and interrupts no cable: for the time of a job.
    pub const FOR_A_JOB: Self =
        Self { rx_usecs: Some(0), eee_off: false, rings_max: false, awake_us: Some(0) };
    /// Everything.
    pub const ALL: Self = Self { eee_off: true, rings_max: true, ..Self::FOR_A_JOB };
    /// Processors that stay awake, and nothing else.
    pub const AWAKE: Self =
        Self { rx_usecs: None, eee_off: false, rings_max: false, awake_us: Some(0) };

    /// Whether it is something, and within bounds.
    #[must_use]
    pub(crate) fn is_sane(&self) -> bool {
        let numbers = [self.rx_usecs, self.awake_us];
        *self != Self::default()
            && numbers.iter().flatten().all(|microseconds| *microseconds <= MICROSECONDS_MAX)
    }
}

/// A setting that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The card; none: the processors.
    pub card: Option<String>,
    /// The setting, as ethtool calls it.
    pub setting: String,
    /// What it was.
    pub before: String,
    /// What it is.
    pub now: String,
}

/// What was not done, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The card; none: the host.
    pub card: Option<String>,
    /// The rest of the sentence whose subject that is.
    pub text: String,
}

/// A user who holds a tuning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The user.
    pub uid: u32,
    /// Until it is undone, and not only while a process of that user lives.
    pub is_kept: bool,
    /// What is wanted.
    pub wants: Wants,
}

/// How a host is tuned now, and what a request did not get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuned {
    /// All that is not as it was.
    pub changes: Vec<Change>,
    /// What was not done.
    pub notes: Vec<Note>,
    /// On whose behalf it is so.
    pub holders: Vec<Holder>,
}
