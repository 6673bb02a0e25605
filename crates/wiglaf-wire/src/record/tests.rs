use proptest::prelude::*;

use super::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..64)
}

fn envelope() -> impl Strategy<Value = Envelope> {
    (0u8..9, any::<u32>(), any::<u64>(), any::<Option<u64>>(), any::<u64>(), any::<bool>())
        .prop_map(|(class, operation, tag, data, address, is_held)| {
            let class = Class::from_code(class).unwrap();
            let address = if class.names_memory() { address } else { 0 };
            Envelope { class, operation, tag, data, address, is_held }
        })
}

/// Emits `record` between two others and reads all three back.
fn comes_back(record: Record<'_>) {
    let mut body = vec![0; record.len() + 2 * RECORD_PREFIX_LEN];
    let mut at = Record::Close.emit(&mut body);
    at += record.emit(&mut body[at..]);
    at += Record::Close.emit(&mut body[at..]);
    assert_eq!(at, body.len());
    let all: Result<Vec<_>, _> = Records::new(&body).collect();
    assert_eq!(all.unwrap(), [Record::Close, record, Record::Close]);
}

proptest! {
    #[test]
    fn eager_records_come_back(envelope in envelope(), total: u64, payload in bytes()) {
        comes_back(Record::Message(envelope, &payload));
        comes_back(Record::First { envelope, total, payload: &payload });
        comes_back(Record::Next(&payload));
        comes_back(Record::Padding(&payload));
        let trial = Trial { lane: lane::BULK, len: 8972, frame_len_max: 65_507 };
        comes_back(Record::Probe(trial));
        comes_back(Record::Fits(trial));
    }

    #[test]
    fn rendezvous_records_come_back(
        envelope in envelope(), total: u64, send_id: u32, transfer_id: u32, offset: u64,
        window: u32, unasked_len: u32, last: bool,
    ) {
        comes_back(Record::Request { envelope, total, send_id, unasked_len });
        comes_back(Record::Pull(Pull {
            send_id, transfer_id, offset, len: total, window, last,
        }));
    }

    #[test]
    fn parts_come_back(
        lane in 0u8..2, number in 0..1u64 << crate::NUMBER_BITS, step in 0u16..500, payload in bytes(),
    ) {
        prop_assume!(!payload.is_empty());
        let offset = PART_STEP as u16 * step;
        let total = offset + payload.len() as u16;
        comes_back(Record::Part(Part { lane, number, total, offset, payload: &payload }));
    }

    #[test]
    fn acks_come_back(
        lane in 0u8..2, delay_us: u16, is_exact: bool, cumulative: u32,
        words in proptest::collection::vec(any::<u64>(), 0..BITMAP_WORDS_MAX),
    ) {
        let bitmap: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let sent_at_us = !cumulative;
        let ack = Ack { lane, delay_us, is_exact, sent_at_us, cumulative, bitmap: &bitmap };
        prop_assert_eq!(ack.words().collect::<Vec<_>>(), words);
        comes_back(Record::Ack(ack));
    }

    #[test]
    fn segments_come_back(id: u32, is_unasked: bool, offset: u64, payload in bytes()) {
        let transfer = if is_unasked { Transfer::Unasked(id) } else { Transfer::Pulled(id) };
        let mut body = vec![0; SEGMENT_PREFIX_LEN];
        Segment::emit_prefix(transfer, offset, &mut body);
        body.extend_from_slice(&payload);
        prop_assert_eq!(
            Segment::parse(&body),
            Ok(Segment { transfer, offset, payload: &payload })
        );
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for record in Records::new(&bytes) {
            if let Ok(Record::Ack(ack)) = record {
                let _ = ack.words().count();
            }
        }
        let _ = Segment::parse(&bytes);
    }

    /// A walk over any bytes ends with its first error.
    #[test]
    fn nothing_follows_an_error(bytes in proptest::collection::vec(0u8..8, 0..64)) {
        let outcomes: Vec<bool> = Records::new(&bytes).map(|r| r.is_ok()).collect();
        prop_assert!(outcomes.iter().rev().skip(1).all(|ok| *ok));
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let mut body = [0; 64];
    let len = Record::Close.emit(&mut body);
    body[2] = 1; // a CLOSE with one byte too many
    let first = Records::new(&body[..=len]).next().unwrap();
    assert_eq!(first, Err(WireError::Field("record length")));
}

#[test]
fn unknown_types_and_lanes_are_refused() {
    assert_eq!(Records::new(&[0x7f, 0, 0, 0]).next(), Some(Err(WireError::RecordType(0x7f))));
    let mut body = [0; 16];
    Record::Ack(Ack {
        lane: lane::BULK,
        delay_us: 0,
        is_exact: false,
        sent_at_us: 7,
        cumulative: 9,
        bitmap: &[],
    })
    .emit(&mut body);
    body[RECORD_PREFIX_LEN] = 2;
    assert_eq!(Records::new(&body).next(), Some(Err(WireError::Field("lane"))));
}

#[test]
fn a_payload_may_be_put_behind_its_record() {
    let envelope = Envelope::new(Class::Active, 1, None);
    let mut whole = [0; 64];
    let len = Record::Message(envelope, b"hwaet").emit(&mut whole);
    let mut parts = [0; 64];
    let head = Record::Message(envelope, b"").emit_before(5, &mut parts);
    parts[head..head + 5].copy_from_slice(b"hwaet");
    assert_eq!((head + 5, parts), (len, whole));
}
