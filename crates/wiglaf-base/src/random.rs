//! Secrets and names that nobody guesses.

use std::fs::File;
use std::io::Read;

use crate::error::{Context, Result};

fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.cannot(|| "read /dev/urandom".to_owned())?;
    Ok(bytes)
}

/// 32 hexadecimal digits: the secret of a job.
///
/// # Errors
/// When the machine has no source of randomness.
pub fn key() -> Result<String> {
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes()?)))
}

/// 64 random bits that are not zero.
///
/// # Errors
/// When the machine has no source of randomness.
pub fn nonzero() -> Result<u64> {
    loop {
        match u64::from_ne_bytes(bytes()?) {
            0 => {}
            value => return Ok(value),
        }
    }
}
