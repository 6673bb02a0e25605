//! What fuzzers call: each target takes any bytes, and panics if the product
//! does something with them that it must never do.
//!
//! The targets are ordinary functions, so that `fuzz/` (cargo-fuzz, with the
//! sanitizers of a nightly compiler) and the test that replays the corpora of
//! `fuzz/corpus/` on a stable one run the same code.
//!
//! Parsers must not panic, and what they accept must come out the same when
//! it is written and read again. The state machines must keep their promises
//! in any order of calls.

mod application;
mod hostile;
mod liar;
mod operations;
mod parsers;
mod tape;

pub use tape::Tape;

use wiglaf_wire::encrypted::{SenderCipher, TAG_LEN};
use wiglaf_wire::{HEADER_LEN, Header, JobKey, seal};

/// A name, which is that of its corpus, and what takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All there are.
pub const TARGETS: &[Target] = &[
    ("datagram", parsers::datagram),
    ("records", parsers::records),
    ("frame", parsers::frame),
    ("captured", wiglaf_emulation::fuzzing::captured),
    ("hostlist", parsers::hostlist),
    ("cluster_file", parsers::cluster_file),
    ("arguments", parsers::arguments),
    ("init", parsers::init),
    ("helper", wiglaf_helper::fuzzing::helper),
    ("policy", wiglaf_helper::fuzzing::policy),
    ("files_request", wiglaf_files::fuzzing::request),
    ("files_answer", wiglaf_files::fuzzing::answer),
    ("remembered", parsers::remembered),
    ("environment", parsers::environment),
    ("local", parsers::local),
    ("counters", wiglaf_counters::fuzzing::snapshot),
    ("transport", operations::transport),
    ("hostile_peer", hostile::endpoint),
];

/// A datagram that whoever has the key can make: encrypted as its sender's `count`th, or else proven.
fn sealed(
    header: &Header,
    key: &JobKey,
    cipher: Option<(&SenderCipher, u64)>,
    body: &[u8],
) -> Vec<u8> {
    let mut datagram = vec![0; HEADER_LEN];
    datagram.extend_from_slice(body);
    if let Some((cipher, count)) = cipher {
        datagram.resize(datagram.len() + TAG_LEN, 0);
        cipher.seal(header, count, &mut datagram);
    } else {
        seal(header, key, &mut datagram);
    }
    datagram
}

/// Runs the target of that name.
///
/// # Panics
/// When there is none, and when the target has found something.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    target(bytes);
}
