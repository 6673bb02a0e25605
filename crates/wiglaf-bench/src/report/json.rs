//! Results as files. Their layout is that of the `Report` types, each of
//! which names its schema; docs on the fields are the documentation.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BenchError, Result, file_error};

/// Writes a report, readable by people too.
///
/// # Errors
/// When the file cannot be written.
pub fn write<R: Serialize>(report: &R, path: &Path) -> Result<()> {
    let mut text = serde_json::to_string_pretty(report).map_err(|e| bad(path, &e))?;
    text.push('\n');
    fs::write(path, text).map_err(file_error(path))
}

/// Reads a report back.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R> {
    let text = fs::read_to_string(path).map_err(file_error(path))?;
    serde_json::from_str(&text).map_err(|e| bad(path, &e))
}

fn bad(path: &Path, error: &serde_json::Error) -> BenchError {
    BenchError::Output { what: path.display().to_string(), detail: error.to_string() }
}
