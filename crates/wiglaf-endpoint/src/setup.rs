//! What an endpoint is made of, and what of it concerns the protocol.

use std::time::Duration;

use wiglaf_link::Link;
use wiglaf_transport::Path;
use wiglaf_wire::{Epoch, JobKey};

use crate::trains::datagrams_max;

/// What an endpoint is made of.
pub struct Setup {
    /// Its incarnation.
    pub epoch: Epoch,
    /// The job's secret.
    pub key: JobKey,
    /// Its links. The first gives the endpoint its address; of those that
    /// reach a peer the last is used.
    pub links: Vec<Box<dyn Link>>,
    /// How long a peer that owes an answer may be silent.
    pub silence_limit: Duration,
    /// Off only to show what happens without it.
    pub flow_control: bool,
    /// Whether datagrams are encrypted, and only encrypted ones taken. The near lane never is.
    pub encrypt: bool,
}

/// What the protocol must know of a link.
pub(crate) fn path_of(link: &dyn Link) -> Path {
    let limits = link.limits();
    Path {
        frame_len_max: limits.frame_len_max,
        frame_len_sure: limits.frame_len_sure,
        latency_train_max: limits.latency_train_max,
        bulk_train_max: datagrams_max(limits.bulk_train_max, limits.frame_len_max),
        bulk_window_len: limits.bulk_window_len,
        bulk_port: link.bulk_port(),
    }
}
