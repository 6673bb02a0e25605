//! What fuzzers call of this crate's private parsers.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

use crate::proto::{Reply, Request, recv};

/// More would not fit the socket, and nobody reads while it is written.
const STREAM_LEN_MAX: usize = 32 * 1024;

/// What comes in at a server's socket, and at that of its client.
pub fn messages(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Request>(bytes);
    let _ = serde_json::from_slice::<Reply>(bytes);
    let bytes = &bytes[..bytes.len().min(STREAM_LEN_MAX)];
    let stream = || {
        let (mut a, b) = UnixStream::pair().expect("sockets can be had");
        a.write_all(bytes).expect("the socket has room");
        b
    };
    let requests = stream();
    while recv::<Request>(&requests).is_ok() {}
    let replies = stream();
    while recv::<Reply>(&replies).is_ok() {}
}

/// The kernel's tables, in which names are what users make of them.
pub fn tables(bytes: &[u8]) {
    crate::agent::fuzz_stat(bytes);
    let found = crate::mounts::parse(bytes);
    assert!(found.len() <= bytes.len());
    let written: Vec<u8> =
        bytes.iter().flat_map(|byte| format!("\\{byte:03o}").into_bytes()).collect();
    assert_eq!(crate::mounts::unescape(&written).as_os_str().as_bytes(), bytes);
    assert!(crate::mounts::unescape(bytes).as_os_str().len() <= bytes.len());
}
