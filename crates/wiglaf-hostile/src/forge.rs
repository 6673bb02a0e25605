//! Frames of every kind of attack, made of recorded ones.

use std::collections::BTreeMap;

use wiglaf_wire::{
    Ack, Class, Crc32c, Envelope, HEADER_LEN, Pull, RECORD_PREFIX_LEN, Record, SEGMENT_PREFIX_LEN,
    lane,
};

use crate::packet::{ETHERNET_LEN, HEADERS_LEN, IP_LEN, Recorded, internet_sum, mend, mend_ip_sum};

/// Frames taken of each class (ends, kind, first record) as models.
const MODELS_PER_CLASS: usize = 2;
/// Bytes behind the header that are changed one by one.
const BODY_MAX: usize = 80;
/// Fields of the header: where, how long.
const FIELDS: [(usize, usize); 9] =
    [(3, 1), (4, 4), (8, 8), (16, 8), (24, 8), (32, 4), (36, 4), (40, 4), (44, 2)];
const CHECKSUM_AT: usize = 4;

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attack {
    /// What was recorded, again: as it was, and from another address.
    Replay,
    /// Other bodies behind a recorded header, with the checksum that the header has: proof and
    /// checksum are right. They acknowledge, match, write to memory and say good-bye.
    Forge,
    /// Every bit of a header and every byte of a body changed, lengths cut and grown.
    Mutate,
    /// Headers and records by the rules, with every field at its limits, without the key.
    Invent,
    /// Wrong Ethernet, IP and UDP headers.
    Envelope,
    /// ICMP: nobody listens there; the way is too narrow.
    Report,
}

impl Attack {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Replay, Self::Forge, Self::Mutate, Self::Invent, Self::Envelope, Self::Report];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Forge => "forge",
            Self::Mutate => "mutate",
            Self::Invent => "invent",
            Self::Envelope => "envelope",
            Self::Report => "report",
        }
    }
}

/// The frames of one attack.
#[must_use]
pub fn frames(attack: Attack, recorded: &[Recorded]) -> Vec<Vec<u8>> {
    let models = models(recorded, MODELS_PER_CLASS);
    match attack {
        Attack::Replay => recorded.iter().flat_map(replays).collect(),
        Attack::Forge => models.iter().flat_map(|model| forgeries(model)).collect(),
        Attack::Mutate => models.iter().flat_map(|model| mutations(model)).collect(),
        Attack::Invent => models.iter().flat_map(|model| inventions(model)).collect(),
        Attack::Envelope => models.iter().flat_map(|model| envelopes(model)).collect(),
        Attack::Report => recorded.iter().flat_map(reports).collect(),
    }
}

/// The first `each` frames of every class.
pub(crate) fn models(recorded: &[Recorded], each: usize) -> Vec<&Recorded> {
    let mut classes: BTreeMap<_, Vec<&Recorded>> = BTreeMap::new();
    for frame in recorded {
        let class = classes.entry(frame.class()).or_default();
        if class.len() < each {
            class.push(frame);
        }
    }
    classes.into_values().flatten().collect()
}

fn replays(frame: &Recorded) -> [Vec<u8>; 2] {
    let mut elsewhere = frame.0.clone();
    elsewhere[ETHERNET_LEN + 15] ^= 0x40;
    mend(&mut elsewhere);
    [frame.with(frame.datagram()), elsewhere]
}

fn envelope(class: Class, key: u64) -> Envelope {
    Envelope { class, data: Some(7), operation: 1, tag: key, address: 0, is_held: false }
}

/// Bodies that would do harm if they were believed.
fn harmful_bodies() -> Vec<Vec<u8>> {
    let all = [0xff; 256];
    let ack = |lane, cumulative, bitmap| {
        let sent_at_us = cumulative ^ 0x8000_0000;
        Record::Ack(Ack { lane, delay_us: 0, is_exact: true, sent_at_us, cumulative, bitmap })
    };
    let pull = Pull { send_id: 0, transfer_id: 0, offset: 0, len: 1 << 20, window: 1, last: true };
    let mut records = vec![
        Record::Close,
        Record::Pull(pull),
        Record::Next(&all),
        Record::Request {
            envelope: envelope(Class::Tagged, 7),
            total: u64::MAX,
            send_id: 1,
            unasked_len: 0,
        },
        Record::First { envelope: envelope(Class::Tagged, 7), total: 1 << 16, payload: &all },
    ];
    for cumulative in [0, 1, 1 << 10, 1 << 31, u32::MAX] {
        records.push(ack(lane::ORDERED, cumulative, &all));
        records.push(ack(lane::BULK, cumulative, &all));
    }
    for class in [
        Class::Tagged,
        Class::Untagged,
        Class::Write,
        Class::Read,
        Class::Atomic,
        Class::Fetch,
        Class::Answer,
        Class::Collective,
    ] {
        for key in [0, 1, 2, 7, u64::MAX] {
            records.push(Record::Message(envelope(class, key), &all[..64]));
        }
    }
    let bytes = |record: &Record<'_>| {
        let mut body = vec![0; record.len()];
        record.emit(&mut body);
        body
    };
    records.iter().map(bytes).collect()
}

fn forgeries(model: &Recorded) -> Vec<Vec<u8>> {
    let datagram = model.datagram();
    let (head, _) = datagram.split_at(HEADER_LEN);
    let wanted = model.checksum();
    let forge = |body: Vec<u8>| {
        let mut forged = head.to_vec();
        forged.extend_from_slice(&with_checksum(body, wanted));
        model.with(&forged)
    };
    harmful_bodies().into_iter().map(forge).collect()
}

/// Four bytes more, and the body's CRC-32C is `wanted`: a checksum without a key holds nobody up.
pub(crate) fn with_checksum(mut body: Vec<u8>, wanted: u32) -> Vec<u8> {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    // Backwards from the wanted end, as if four bytes of zeros had been there …
    let mut end = !wanted;
    for _ in 0..32 {
        end = if end >> 31 == 1 { (end ^ POLYNOMIAL) << 1 | 1 } else { end << 1 };
    }
    // … which the difference from where the body really ends then takes the place of.
    let patch = end ^ !Crc32c::of(&body);
    body.extend_from_slice(&patch.to_le_bytes());
    body
}

/// Writes the checksum that the body has.
fn sum(datagram: &mut [u8]) {
    if datagram.len() >= HEADER_LEN {
        let sum = Crc32c::of(&datagram[HEADER_LEN..]);
        datagram[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

fn mutations(model: &Recorded) -> Vec<Vec<u8>> {
    let good = model.datagram();
    let mut made = Vec::new();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = good.to_vec();
        change(&mut datagram);
        datagram
    };
    for bit in 0..HEADER_LEN * 8 {
        made.push(changed(&|d| d[bit / 8] ^= 1 << (bit % 8)));
    }
    for at in HEADER_LEN..good.len().min(HEADER_LEN + BODY_MAX) {
        for value in [0, 1, 0x7f, 0xff] {
            made.push(changed(&|d| d[at] = value)); // the checksum is wrong
            made.push(changed(&|d| {
                d[at] ^= value | 1;
                sum(d); // the proof is
            }));
        }
    }
    for len in (0..good.len().min(HEADER_LEN + BODY_MAX)).chain([good.len() - 1]) {
        made.push(good[..len].to_vec());
    }
    made.push(changed(&|d| d.extend_from_slice(&[0; 8])));
    for (at, len) in FIELDS {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            made.push(changed(&|d| d[at..at + len].fill(value)));
        }
        for step in [1_i8, -1, 64, -64] {
            made.push(changed(&|d| d[at] = d[at].wrapping_add_signed(step)));
        }
    }
    made.iter().map(|datagram| model.with(datagram)).collect()
}

fn inventions(model: &Recorded) -> Vec<Vec<u8>> {
    let good = model.datagram();
    let mut bodies = harmful_bodies();
    bodies.push(Vec::new());
    for kind in 0..=0x12_u8 {
        for len in [0_u16, 1, 23, 24, 36, 255, 256, u16::MAX] {
            let mut body = vec![kind, 0];
            body.extend_from_slice(&len.to_le_bytes());
            body.resize(RECORD_PREFIX_LEN + usize::from(len.min(300)), kind);
            bodies.push(body);
        }
    }
    bodies.push(vec![0xff; SEGMENT_PREFIX_LEN]);
    let mut made = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        for kind in 0..=4_u8 {
            let mut datagram = good[..HEADER_LEN].to_vec();
            datagram.extend_from_slice(body);
            datagram[2] = kind;
            match number % 4 {
                0 => datagram[16..24].fill(0x55), // somebody new
                1 => datagram[24..32].fill(0),    // for whoever listens
                2 => datagram[16..32].rotate_left(8),
                _ => datagram[8..16].fill(0),
            }
            sum(&mut datagram);
            made.push(model.with(&datagram));
        }
    }
    made
}

fn envelopes(model: &Recorded) -> Vec<Vec<u8>> {
    let good = model.with(model.datagram());
    let mut made = Vec::new();
    let mut push = |change: &dyn Fn(&mut Vec<u8>), mends: bool| {
        let mut frame = good.clone();
        change(&mut frame);
        if mends {
            mend_ip_sum(&mut frame);
        }
        made.push(frame);
    };
    for at in 12..HEADERS_LEN {
        for value in [0, 1, 0x45, 0x4f, 0x60, 0x80, 0xff] {
            push(&|f| f[at] = value, false);
            push(&|f| f[at] = value, !(24..=25).contains(&at));
        }
    }
    for len in ETHERNET_LEN..=HEADERS_LEN + 1 {
        push(&|f| f.truncate(len), false);
    }
    // A VLAN tag, IP options, fragments, a broadcast, padding, a UDP checksum that is wrong.
    push(&|f| drop(f.splice(12..12, [0x81, 0, 0, 1])), false);
    push(&|f| drop(f.splice(34..34, [1; 8])), false);
    push(&|f| f[20..22].copy_from_slice(&0x2000_u16.to_be_bytes()), true);
    push(&|f| f[20..22].copy_from_slice(&0x00b9_u16.to_be_bytes()), true);
    push(&|f| f[..6].fill(0xff), false);
    push(&|f| f.extend_from_slice(&[0xaa; 20]), false);
    push(&|f| f[40..42].fill(0x11), false);
    made
}

/// As if the addressee had refused the datagram, or a router had found it too long.
fn reports(frame: &Recorded) -> Vec<Vec<u8>> {
    const QUOTED_MAX: usize = 200;
    let quoted = &frame.0[ETHERNET_LEN..];
    let quoted = &quoted[..quoted.len().min(QUOTED_MAX) & !1];
    let report = |code: u8, mtu: u16, quoted: &[u8]| {
        let mut icmp = vec![3, code, 0, 0, 0, 0];
        icmp.extend_from_slice(&mtu.to_be_bytes());
        icmp.extend_from_slice(quoted);
        let sum = internet_sum(&icmp);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut made = frame.0[..ETHERNET_LEN + IP_LEN].to_vec();
        // Back from where the datagram went.
        made[..12].rotate_left(6);
        made[ETHERNET_LEN + 12..ETHERNET_LEN + 20].rotate_left(4);
        made[23] = 1;
        made[16..18].copy_from_slice(&((IP_LEN + icmp.len()) as u16).to_be_bytes());
        mend_ip_sum(&mut made);
        made.extend_from_slice(&icmp);
        made
    };
    // No port, no host, forbidden, too narrow; quoted whole, and as old routers do.
    let short = &quoted[..IP_LEN + 8];
    vec![
        report(3, 0, quoted),
        report(3, 0, short),
        report(1, 0, quoted),
        report(13, 0, quoted),
        report(4, 552, quoted),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use wiglaf_wire::{Epoch, Header, JobKey, Kind, WireError, open, seal};

    use super::*;

    pub(crate) const KEY: JobKey = JobKey([3; 16]);

    pub(crate) fn recorded() -> Recorded {
        let header = Header {
            kind: Kind::Ordered,
            source: Epoch(5),
            destination: Epoch(6),
            sequence: 7,
            ack: 8,
            credit: 9,
            ack_delay_us: 0,
            bulk_port: 1,
        };
        let mut frame = vec![0; HEADERS_LEN + HEADER_LEN];
        frame.extend_from_slice(b"\x06\0\0\0");
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[23] = 17;
        seal(&header, &KEY, &mut frame[HEADERS_LEN..]);
        mend(&mut frame);
        Recorded::new(frame).unwrap()
    }

    /// The strongest forgeries are those that only their number gives away.
    #[test]
    fn forged_bodies_have_the_proof_and_the_checksum_of_the_recorded_header() {
        let forged = frames(Attack::Forge, &[recorded()]);
        assert!(forged.len() > 40);
        for frame in forged {
            let (header, body) = open(&KEY, &frame[HEADERS_LEN..]).unwrap();
            assert_eq!(header.sequence, 7);
            assert_ne!(body, b"\x06\0\0\0");
        }
    }

    #[test]
    fn nothing_else_has_a_proof_but_what_was_recorded() {
        for attack in [Attack::Mutate, Attack::Invent] {
            for frame in frames(attack, &[recorded()]) {
                let datagram = &frame[HEADERS_LEN..];
                let opened = open(&KEY, datagram);
                assert!(opened.is_err() || datagram == recorded().datagram(), "{datagram:?}");
            }
        }
        let refusals: std::collections::HashSet<_> = frames(Attack::Mutate, &[recorded()])
            .iter()
            .filter_map(|frame| open(&KEY, &frame[HEADERS_LEN..]).err())
            .collect();
        for why in [WireError::Truncated, WireError::Magic, WireError::Proof, WireError::Checksum] {
            assert!(refusals.contains(&why), "no frame is refused with {why:?}");
        }
    }

    #[test]
    fn a_report_quotes_what_was_sent_and_comes_back_from_there() {
        let frame = recorded();
        let report = &frames(Attack::Report, std::slice::from_ref(&frame))[0];
        assert_eq!(internet_sum(&report[ETHERNET_LEN..ETHERNET_LEN + IP_LEN]), 0);
        assert_eq!(internet_sum(&report[ETHERNET_LEN + IP_LEN..]), 0);
        assert!(report.ends_with(frame.datagram()));
    }
}
