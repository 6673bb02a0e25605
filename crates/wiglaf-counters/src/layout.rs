//! The bytes of a snapshot. All numbers are little-endian.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic, with the version of the layout as its last character |
//! | 8 | 4 | length of the whole in bytes |
//! | 12 | 4 | CRC-32C of everything behind it |
//! | 16 | 8 | epoch |
//! | 24 | 6 | IPv4 address and UDP port |
//! | 30 | 2 | reserved |
//! | 32 | 8 | opened, nanoseconds of Unix time |
//! | 40 | 8 | written, nanoseconds of Unix time |
//! | 48 | 4 | process number |
//! | 52 | 4 | rank, or all ones |
//! | 56 | 4 | number of counters |
//! | 60 | 4 | number of peers |
//! | 64 | 4 | peers left out |
//! | 68 | 4 | reserved |
//! | 72 | 40, 32, 32 | job, program, links: text that ends with its first zero |
//! | 176 | | counters of 32 bytes: name (24), value (8) |
//! | behind | | peers of 112 bytes |

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::{COUNTERS_MAX, Identity, NOWHERE, PEERS_MAX, Peer, Snapshot};

const MAGIC: &[u8; 8] = b"WGSTATS1";
const AT_CHECKSUM: usize = 12;
const AT_BODY: usize = 16;
const HEAD_LEN: usize = 176;
const NAME_LEN: usize = 24;
const COUNTER_LEN: usize = NAME_LEN + 8;
const PEER_LEN: usize = 112;
const VIA_LEN: usize = 16;
const JOB_LEN: usize = 40;
const TEXT_LEN: usize = 32;
const NO_RANK: u32 = u32::MAX;
const GONE: u32 = 1;
/// Longest snapshot.
pub(crate) const LEN_MAX: usize = HEAD_LEN + COUNTERS_MAX * COUNTER_LEN + PEERS_MAX * PEER_LEN;

/// Writes a snapshot into `out`, which is cleared before.
pub(crate) fn write<'a>(
    out: &mut Vec<u8>,
    identity: &Identity,
    now_ns: u64,
    counters: impl Iterator<Item = (&'a str, u64)>,
    peers: &[Peer],
) {
    out.clear();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; AT_BODY - 8]);
    out.extend_from_slice(&identity.epoch.to_le_bytes());
    put_address(out, identity.at);
    out.extend_from_slice(&[0; 2]);
    put_all(out, &[identity.opened_at_ns, now_ns]);
    out.extend_from_slice(&identity.pid.to_le_bytes());
    out.extend_from_slice(&identity.rank.unwrap_or(NO_RANK).to_le_bytes());
    let at_counts = out.len();
    out.extend_from_slice(&[0; 16]);
    put_text(out, &identity.job, JOB_LEN);
    put_text(out, &identity.program, TEXT_LEN);
    put_text(out, &identity.links, TEXT_LEN);
    let mut counter_count = 0_u32;
    for (name, value) in counters.take(COUNTERS_MAX) {
        put_text(out, name, NAME_LEN);
        out.extend_from_slice(&value.to_le_bytes());
        counter_count += 1;
    }
    let shown = &peers[..peers.len().min(PEERS_MAX)];
    shown.iter().for_each(|peer| put_peer(out, peer));
    let left_out = (peers.len() - shown.len()) as u32;
    for (i, count) in [counter_count, shown.len() as u32, left_out].into_iter().enumerate() {
        out[at_counts + 4 * i..at_counts + 4 * i + 4].copy_from_slice(&count.to_le_bytes());
    }
    let len = out.len() as u32;
    out[8..12].copy_from_slice(&len.to_le_bytes());
    let checksum = crc32c(&out[AT_BODY..]);
    out[AT_CHECKSUM..AT_BODY].copy_from_slice(&checksum.to_le_bytes());
}

fn put_peer(out: &mut Vec<u8>, peer: &Peer) {
    out.extend_from_slice(&peer.epoch.to_le_bytes());
    put_address(out, peer.at);
    out.extend_from_slice(&[0; 2]);
    put_text(out, &peer.via, VIA_LEN);
    out.extend_from_slice(&(if peer.is_gone { GONE } else { 0 }).to_le_bytes());
    out.extend_from_slice(&peer.in_flight.to_le_bytes());
    put_all(
        out,
        &[
            peer.messages_sent,
            peer.bytes_sent,
            peer.messages_received,
            peer.bytes_received,
            peer.retransmitted,
            peer.credit_stalls,
            peer.credit_left,
            peer.rtt_ns,
            0,
        ],
    );
}

fn put_all(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn put_address(out: &mut Vec<u8>, at: SocketAddrV4) {
    out.extend_from_slice(&at.ip().octets());
    out.extend_from_slice(&at.port().to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str, len: usize) {
    let taken = text.len().min(len);
    out.extend_from_slice(&text.as_bytes()[..taken]);
    out.resize(out.len() + len - taken, 0);
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Gives bytes the length and checksum of a snapshot, if they are long enough.
pub(crate) fn check(bytes: &mut [u8]) {
    let len = bytes.len();
    if let Some(body) = bytes.get(AT_BODY..) {
        let checksum = crc32c(body);
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        bytes[12..AT_BODY].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// What the bytes of a file mean; `None` while they are half written, or when
/// they are no snapshot of this version. Nothing in them is believed.
pub(crate) fn parse(uid: u32, bytes: &[u8]) -> Option<Snapshot> {
    let mut rest = Reader(bytes.strip_prefix(MAGIC)?);
    let (len, checksum) = (rest.u32()? as usize, rest.u32()?);
    if !(HEAD_LEN..=LEN_MAX).contains(&len) || crc32c(bytes.get(AT_BODY..len)?) != checksum {
        return None;
    }
    let epoch = rest.u64()?;
    let at = rest.address()?;
    rest.take(2)?;
    let (opened_at_ns, updated_at_ns) = (rest.u64()?, rest.u64()?);
    let (pid, rank) = (rest.u32()?, rest.u32()?);
    let (counter_count, peer_count, peers_left_out) = (rest.u32()?, rest.u32()?, rest.u32()?);
    rest.take(4)?;
    let identity = Identity {
        pid,
        epoch,
        at,
        opened_at_ns,
        job: rest.text(JOB_LEN)?,
        program: rest.text(TEXT_LEN)?,
        rank: (rank != NO_RANK).then_some(rank),
        links: rest.text(TEXT_LEN)?,
    };
    let (counter_count, peer_count) = (counter_count as usize, peer_count as usize);
    if counter_count > COUNTERS_MAX || peer_count > PEERS_MAX {
        return None;
    }
    let counters = (0..counter_count).map(|_| Some((rest.text(NAME_LEN)?, rest.u64()?)));
    let counters = counters.collect::<Option<Vec<_>>>()?;
    let peers = (0..peer_count).map(|_| rest.peer()).collect::<Option<Vec<_>>>()?;
    Some(Snapshot { uid, identity, updated_at_ns, counters, peers, peers_left_out })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn address(&mut self) -> Option<SocketAddrV4> {
        let ip: [u8; 4] = self.take(4)?.try_into().ok()?;
        let port = u16::from_le_bytes(self.take(2)?.try_into().ok()?);
        Some(SocketAddrV4::new(Ipv4Addr::from(ip), port))
    }

    /// Printable characters only: this may end on the terminal of root.
    fn text(&mut self, len: usize) -> Option<String> {
        let bytes = self.take(len)?.split(|byte| *byte == 0).next()?;
        let shown = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' };
        Some(bytes.iter().map(shown).collect())
    }

    fn peer(&mut self) -> Option<Peer> {
        let mut peer = Peer { epoch: self.u64()?, at: self.address()?, ..Peer::unknown() };
        self.take(2)?;
        peer.via = self.text(VIA_LEN)?;
        peer.is_gone = self.u32()? & GONE != 0;
        peer.in_flight = self.u32()?;
        for value in [
            &mut peer.messages_sent,
            &mut peer.bytes_sent,
            &mut peer.messages_received,
            &mut peer.bytes_received,
            &mut peer.retransmitted,
            &mut peer.credit_stalls,
            &mut peer.credit_left,
            &mut peer.rtt_ns,
        ] {
            *value = self.u64()?;
        }
        self.take(8)?;
        Some(peer)
    }
}

impl Peer {
    /// Of whom nothing is known yet.
    pub(crate) fn unknown() -> Self {
        Self {
            at: NOWHERE,
            epoch: 0,
            via: String::new(),
            is_gone: false,
            messages_sent: 0,
            bytes_sent: 0,
            messages_received: 0,
            bytes_received: 0,
            retransmitted: 0,
            credit_stalls: 0,
            credit_left: 0,
            rtt_ns: 0,
            in_flight: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn identity() -> Identity {
        Identity {
            pid: 7,
            epoch: 0x1234_5678_9abc_def0,
            at: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7701),
            opened_at_ns: 5,
            job: "job".to_owned(),
            program: "pw.x".to_owned(),
            rank: Some(3),
            links: "packet,shm".to_owned(),
        }
    }

    fn written() -> Vec<u8> {
        let mut out = Vec::new();
        let peer = Peer { bytes_sent: 9, via: "udp".to_owned(), rtt_ns: 8, ..Peer::unknown() };
        let counters = [("probes", 4), ("drop_proof", u64::MAX)];
        write(&mut out, &identity(), 6, counters.into_iter(), &[peer]);
        out
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = written();
        assert_eq!(bytes.len(), HEAD_LEN + 2 * COUNTER_LEN + PEER_LEN);
        let snapshot = parse(1000, &bytes).unwrap();
        assert_eq!((snapshot.uid, &snapshot.identity), (1000, &identity()));
        assert_eq!(snapshot.counter("probes"), 4);
        assert_eq!(snapshot.drops().collect::<Vec<_>>(), [("proof", u64::MAX)]);
        assert_eq!((snapshot.peers[0].bytes_sent, snapshot.peers[0].rtt_ns), (9, 8));
    }

    #[test]
    fn what_an_enemy_wrote_cannot_reach_a_terminal() {
        let mut out = Vec::new();
        let identity = Identity { program: "\u{1b}[2J\n".to_owned(), ..identity() };
        write(&mut out, &identity, 6, std::iter::empty(), &[]);
        assert_eq!(parse(0, &out).unwrap().identity.program, "?[2J?");
    }

    #[test]
    fn too_many_peers_are_counted_and_left_out() {
        let mut out = Vec::new();
        let peers = vec![Peer::unknown(); PEERS_MAX + 3];
        write(&mut out, &identity(), 6, (0..300).map(|i| ("x", i)), &peers);
        assert_eq!(out.len(), LEN_MAX);
        let snapshot = parse(0, &out).unwrap();
        assert_eq!((snapshot.peers.len(), snapshot.peers_left_out), (PEERS_MAX, 3));
        assert_eq!(snapshot.counters.len(), COUNTERS_MAX);
    }

    proptest! {
        #[test]
        fn a_torn_snapshot_is_noticed(at in 0usize..300, flip in 1u8..) {
            let mut bytes = written();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            prop_assert!(parse(0, &bytes).is_none());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(tail in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(&tail);
            let _ = parse(0, &bytes);
            // And with a checksum that is right, so that the rest is reached.
            if bytes.len() >= HEAD_LEN {
                let len = bytes.len() as u32;
                bytes[8..12].copy_from_slice(&len.to_le_bytes());
                let sum = crc32c(&bytes[AT_BODY..]);
                bytes[AT_CHECKSUM..AT_BODY].copy_from_slice(&sum.to_le_bytes());
                let _ = parse(0, &bytes);
            }
        }
    }
}
