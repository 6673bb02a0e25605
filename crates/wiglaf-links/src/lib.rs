//! Chooses and opens the links of an endpoint: the one place where the final
//! artifacts (provider, library, benchmarks) meet the backends.

#![forbid(unsafe_code)]

mod choose;
mod environment;
pub mod floor;

use wiglaf_endpoint::{Config, Endpoint};

pub use choose::{OpenError, Opened, open_links};
pub use environment::{VariableError, config_from, config_from_env};

/// Opens an endpoint with the links that `config` asks for.
///
/// # Errors
/// When no link that was asked for works here; the message says why.
#[expect(clippy::todo)]
pub fn open(_config: &Config) -> Result<Endpoint, String> {
    todo!()
}
