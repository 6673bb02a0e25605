//! Files in TOML that people write.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use wiglaf_base::error::{Error, Result};

/// Reads the text of a file called `file`.
///
/// # Errors
/// When it is malformed; the sentence names the line.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, file: impl Display) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        let message = error.message().replace('\n', ", ");
        Error::new(format!("{file}, line {line}: {message}"))
    })
}
