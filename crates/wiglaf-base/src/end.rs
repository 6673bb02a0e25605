//! How a command ends: known where it is run, and told where it is waited for.

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl End {
    /// The status that a shell would report.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Status(status) => status as u8,
            Self::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
}
