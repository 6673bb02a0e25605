//! Parsers that are public. Private ones have their target beside them, in a
//! module `fuzzing` of their crate.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::ffi::OsStringExt;

use wiglaf_base::HostList;
use wiglaf_cluster::Record as ClusterRecord;
use wiglaf_cluster::rate::Rate;
use wiglaf_cluster::shape::{Draft, Nodes};
use wiglaf_links::remembered;
use wiglaf_mpi::fortran::FortranTrue;
use wiglaf_node::faults::{Probability, parse_hold};
use wiglaf_wire::{
    Epoch, HEADER_LEN, Header, JobKey, Kind, NUMBER_BITS, Record, Records, Segment, open, seal,
};

use crate::Tape;

const KEY: JobKey = JobKey([7; 16]);

/// A datagram: as it is, and once more with a checksum and a proof that fit.
pub(crate) fn datagram(bytes: &[u8]) {
    if let Ok((header, body)) = open(&KEY, bytes) {
        let mut again = bytes.to_vec();
        seal(&header, &KEY, &mut again);
        let (reread, same) = open(&KEY, &again).expect("what was sealed is found right");
        assert_eq!((reread, same), (header, body));
    }
    // A proof is not guessed, so what lies behind it is reached by giving one.
    let mut tape = Tape::new(bytes);
    let header = header(&mut tape);
    let mut proven = vec![0; HEADER_LEN];
    proven.extend_from_slice(tape.rest());
    seal(&header, &KEY, &mut proven);
    match open(&KEY, &proven) {
        Ok((reread, body)) => {
            assert_eq!((reread, body), (header, tape.rest()));
            let _ = Segment::parse(body);
        }
        Err(_) => assert!(!header.source.is_known(), "what was sealed is found right"),
    }
}

/// A header of any fields.
pub(crate) fn header(tape: &mut Tape<'_>) -> Header {
    Header {
        kind: [Kind::Ordered, Kind::Bulk, Kind::Control][usize::from(tape.byte() % 3)],
        source: Epoch(u64::from_le_bytes(tape.bytes())),
        destination: Epoch(u64::from_le_bytes(tape.bytes())),
        sequence: u64::from_le_bytes(tape.bytes()) % (1 << NUMBER_BITS),
        ack: u32::from_le_bytes(tape.bytes()),
        credit: u32::from_le_bytes(tape.bytes()),
        ack_delay_us: u16::from_le_bytes(tape.bytes()),
        bulk_port: u16::from_le_bytes(tape.bytes()),
    }
}

/// The records of a body. Those that are accepted come back when written again.
pub(crate) fn records(body: &[u8]) {
    let all: Vec<Record<'_>> = Records::new(body).filter_map(Result::ok).collect();
    let mut again = vec![0; all.iter().map(Record::len).sum()];
    let mut at = 0;
    for record in &all {
        at += record.emit(&mut again[at..]);
        if let Record::Ack(ack) = record {
            assert!(ack.words().count() * 8 == ack.bitmap.len());
        }
    }
    assert!(at <= body.len());
    let reread: Result<Vec<Record<'_>>, _> = Records::new(&again).collect();
    assert_eq!(reread.as_ref(), Ok(&all));
}

/// An Ethernet frame, for whoever it says it is for.
pub(crate) fn frame(bytes: &[u8]) {
    let mut local = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4000);
    if let Some(field) = bytes.get(30..38) {
        local.set_ip(Ipv4Addr::new(field[0], field[1], field[2], field[3]));
        local.set_port(u16::from_be_bytes([field[6], field[7]]));
    }
    if let Ok((_, payload)) = wiglaf_link::frame::parse(bytes, local) {
        assert!(payload.len() <= bytes.len());
    }
}

fn text(bytes: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        parse(text);
    }
}

/// A host list, which comes back from its text.
pub(crate) fn hostlist(bytes: &[u8]) {
    text(bytes, |text| {
        if let Ok(list) = HostList::parse(text) {
            let again = HostList::parse(&list.to_string());
            assert_eq!(again.expect("a list reads its own text"), list);
        }
    });
}

/// A cluster file, and a record of a cluster.
pub(crate) fn cluster_file(bytes: &[u8]) {
    text(bytes, |text| {
        let _ = Draft::parse(text, "cluster.toml");
        let _ = serde_json::from_str::<ClusterRecord>(text);
    });
}

/// Numbers with units, as they stand on command lines.
pub(crate) fn arguments(bytes: &[u8]) {
    text(bytes, |text| {
        let _ = Nodes::parse(text);
        let _ = Probability::parse(text);
        if let Ok(hold) = parse_hold(text) {
            assert!(!hold.is_zero());
        }
        if let Ok(rate) = Rate::parse(text) {
            assert!(rate.bits_per_second() > 0);
        }
        let _ = text.parse::<FortranTrue>();
        let _ = JobKey::from_hex(text);
    });
}

/// What comes in at an init's socket, at that of its client, and at its start.
pub(crate) fn init(bytes: &[u8]) {
    wiglaf_emulation::fuzzing::config(bytes);
    wiglaf_node::fuzzing::messages(bytes);
}

/// What `wiglaf links measure` has left.
pub(crate) fn remembered(bytes: &[u8]) {
    for interface in remembered::parse(bytes).into_iter().flatten() {
        let _ = interface.order();
    }
}

/// What a node's own kernel, files and processes say: the tables of mounts, processes and sockets, a
/// line of subuid(5), a record of the near lane.
pub(crate) fn local(bytes: &[u8]) {
    wiglaf_node::fuzzing::tables(bytes);
    wiglaf_helper::fuzzing::sockets(bytes);
    wiglaf_door::fuzz_subordinates(bytes);
    wiglaf_endpoint::fuzzing::near_record(bytes);
}

/// The environment: lines of NAME=VALUE, less the one that asks the kernel.
pub(crate) fn environment(bytes: &[u8]) {
    let lines: Vec<_> = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b'=')?;
            Some((&line[..at], &line[at + 1..]))
        })
        .collect();
    let value_of = |name: &str| {
        let (_, value) = lines.iter().find(|(line, _)| *line == name.as_bytes())?;
        (name != "WIGLAF_IF").then(|| OsString::from_vec(value.to_vec()))
    };
    if let Err(error) = wiglaf_links::config_from(value_of) {
        assert!(!error.to_string().is_empty());
    }
}
