//! Releases of Debian that images are made of.

use std::fs;

use serde::Serialize;

/// A release of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Release {
    /// 12, bookworm.
    Bookworm,
    /// 13, trixie.
    Trixie,
}

impl Release {
    /// That of this machine, if images of it are made.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let has = |line: &str| text.lines().any(|other| other == line);
        [Self::Bookworm, Self::Trixie]
            .into_iter()
            .find(|one| has("ID=debian") && has(&format!("VERSION_ID=\"{}\"", one.number())))
    }

    /// As users say it.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Bookworm => 12,
            Self::Trixie => 13,
        }
    }

    /// As mmdebstrap knows it.
    pub(crate) fn suite(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }

    /// The version of its C library.
    pub(crate) fn glibc(self) -> (u32, u32) {
        match self {
            Self::Bookworm => (2, 36),
            Self::Trixie => (2, 41),
        }
    }
}
