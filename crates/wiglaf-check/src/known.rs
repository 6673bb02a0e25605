//! A fact, or the reason why it is not known.

use serde::{Deserialize, Serialize};

/// What was asked for, or why it could not be had: `null` says nothing, and a missing privilege is
/// worth a word. Numbers in `T` have 64 bits at most, or serde cannot read it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// It could not be found out.
    Unknown {
        /// Why.
        unknown: String,
    },
    /// It is this.
    Is(T),
}

impl<T> Known<T> {
    /// Not known, for this reason.
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { unknown: why.into() }
    }

    /// The fact, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Unknown { .. } => None,
        }
    }

    /// Why there is none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Is(_) => None,
            Self::Unknown { unknown } => Some(unknown),
        }
    }
}

impl<T> Default for Known<T> {
    /// What was not asked for, or an older Wiglaf on the other host does not say.
    fn default() -> Self {
        Self::unknown("nothing is said of it")
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Known<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Is(value),
            Err(why) => Self::unknown(why.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_values_survive_json() {
        for known in [Known::Is(vec![1_u32, 2]), Known::unknown("no such driver")] {
            let text = serde_json::to_string(&known).unwrap();
            assert_eq!(serde_json::from_str::<Known<Vec<u32>>>(&text).unwrap(), known, "{text}");
        }
    }
}
