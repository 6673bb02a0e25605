//! Chooses and opens the links of an endpoint: the one place where the final
//! artifacts (provider, library, benchmarks) meet the backends.

#![forbid(unsafe_code)]

mod choose;
mod environment;
pub mod floor;
mod machines;
mod published;
pub mod remembered;
mod told;

use machines::Machines;
use rustix::rand::{GetRandomFlags, getrandom};
use wiglaf_endpoint::{Config, Endpoint, Epoch, FRAME_LEN_MIN, JobKey, LinkKind, Setup, TAG_LEN};

pub use choose::{OpenError, Opened, address_for, interface_for, open_links, unchosen_network};
pub use environment::{VariableError, config_from, config_from_env};
pub use told::{Told, told};
pub use wiglaf_endpoint::WaitPolicy;
pub use wiglaf_link_udp::Place;

/// Opens an endpoint with the links that `config` asks for.
///
/// # Errors
/// When no link that was asked for works here; the message says why.
pub fn open(config: &Config) -> Result<Endpoint, OpenError> {
    open_noting(config, &mut |_| {})
}

/// Opens an endpoint with the links that `config` asks for. `note` is told, in a sentence, when a link is not quite the
/// one that was asked for.
///
/// # Errors
/// When no link that was asked for works here; the message says why.
pub fn open_noting(config: &Config, note: &mut dyn FnMut(&str)) -> Result<Endpoint, OpenError> {
    let epoch = config.epoch.unwrap_or_else(random_epoch);
    let mut opened = open_links(place_of(config), epoch.0, config.link)?;
    if let Some(text) = &opened.note {
        note(text);
    }
    if !config.memory_access
        && let Some(near) = opened.shm.as_mut().and_then(|link| link.near())
    {
        near.forbid_memory_access();
    }
    // Of the links that reach a peer the endpoint uses the last: shared memory.
    let links: Vec<_> = opened.net.into_iter().chain(opened.shm).collect();
    let frame_len = links.iter().map(|link| link.limits().frame_len_max).min().unwrap_or(0);
    let tag_len = if config.encrypt { TAG_LEN } else { 0 };
    if frame_len < FRAME_LEN_MIN + tag_len {
        return Err(OpenError::FramesTooShort { frame_len });
    }
    let mut endpoint = Endpoint::new(Setup {
        epoch,
        key: config.key,
        links,
        silence_limit: config.silence_limit,
        flow_control: config.flow_control,
        encrypt: config.encrypt,
    });
    endpoint.set_late_peeks(config.late_peeks);
    endpoint.set_wait(config.wait, config.oversubscribed);
    endpoint.set_lengths(config.lengths);
    let ip = *endpoint.name().at.ip();
    if let Some(limit) =
        config.host_limit.filter(|_| config.link != LinkKind::Shm && !ip.is_loopback())
    {
        endpoint.watch_machines(Box::new(Machines::new(ip, config.ports)), limit);
    }
    if config.publish {
        published::publish(&mut endpoint);
    }
    Ok(endpoint)
}

/// Where the sockets of an endpoint are bound.
#[must_use]
pub fn place_of(config: &Config) -> Place {
    Place { ip: config.ip, port: config.port, ports: config.ports }
}

/// What a user should know of a configuration that works: each is one sentence, to be said once.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let leaves =
        config.link != LinkKind::Shm && address_for(config.ip).is_ok_and(|ip| !ip.is_loopback());
    if leaves && config.key == JobKey::default() {
        warnings.push(
            "WIGLAF_KEY is not set: whoever is on the network can send to this rank as if he were one; \
             start jobs with wiglaf run, or set it for all ranks (docs/environment.md)"
                .to_owned(),
        );
    }
    if leaves && config.ip.is_unspecified() {
        warnings.extend(unchosen_network());
    }
    warnings
}

/// A new incarnation.
#[must_use]
pub fn random_epoch() -> Epoch {
    let mut bytes = [0; 8];
    loop {
        // Before the kernel's pool is ready, and never after, this may fail.
        if getrandom(&mut bytes, GetRandomFlags::empty()).is_ok() {
            let epoch = Epoch(u64::from_le_bytes(bytes));
            if epoch.is_known() {
                return epoch;
            }
        }
    }
}
