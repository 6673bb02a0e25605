//! Chooses and opens the links of an endpoint: the one place where the final
//! artifacts (provider, library, benchmarks) meet the backends.

use wiglaf_endpoint::{Config, Endpoint};

/// Opens an endpoint with the links that `config` asks for.
///
/// # Errors
/// When no link that was asked for works here; the message says why.
#[expect(clippy::todo)]
pub fn open(_config: &Config) -> Result<Endpoint, String> {
    todo!()
}

/// The configuration that the environment asks for (`WIGLAF_LINK`, `WIGLAF_KEY`, `WIGLAF_IP`, ...).
///
/// # Errors
/// When a variable holds something that cannot be meant.
#[expect(clippy::todo)]
pub fn config_from_env() -> Result<Config, String> {
    todo!()
}
