//! What stands on the wire, byte by byte. The bytes were computed from docs/protocol.md by another
//! implementation (in Python, with its own CRC, SipHash, HKDF and AES-GCM): whoever changes both
//! sides of ours alike still does not understand it any longer. A wanted change of these is another
//! version of the protocol.

use wiglaf_wire::encrypted::{JobCipher, TAG_LEN};
use wiglaf_wire::{
    Ack, Class, Envelope, Epoch, HEADER_LEN, Header, JobKey, Kind, Pull, Record, Records,
    SEGMENT_PREFIX_LEN, Segment, Transfer, lane, open, seal,
};

const KEY: JobKey = JobKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
/// Every byte of a number is another, and of each number.
const HEADER: Header = Header {
    kind: Kind::Ordered,
    source: Epoch(0x1817_1615_1413_1211),
    destination: Epoch(0x2827_2625_2423_2221),
    sequence: 0x05_0403_0201,
    ack: 0x3433_3231,
    credit: 0x4443_4241,
    ack_delay_us: 0x5251,
    bulk_port: 0x6261,
};
const TAGGED: Envelope = Envelope {
    class: Class::Tagged,
    operation: 0,
    tag: 0x1817_1615_1413_1211,
    data: Some(0x0807_0605_0403_0201),
    address: 0,
    is_held: false,
};
const WRITE: Envelope = Envelope {
    class: Class::Write,
    operation: 0x2423_2221,
    tag: 0x1817_1615_1413_1211,
    data: None,
    address: 0x3837_3635_3433_3231,
    is_held: false,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8; 2]| {
        let pair = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(pair, 16).unwrap()
    };
    digits.as_chunks().0.iter().map(byte).collect()
}

#[test]
fn each_record_is_these_bytes() {
    let bitmap = bytes("d1d2d3d4d5d6d7d8");
    let records = [
        (
            Record::Message(TAGGED, b"wiglaf"),
            "01001e00 0001 0000 00000000 1112131415161718 0102030405060708 7769676c6166",
        ),
        (
            Record::Message(WRITE, b"w"),
            "01002100 0300 0000 21222324 1112131415161718 0000000000000000 3132333435363738 77",
        ),
        (
            Record::First { envelope: TAGGED, total: 70_000, payload: b"wig" },
            "02002300 0001 0000 00000000 1112131415161718 0102030405060708 7011010000000000 776967",
        ),
        (Record::Next(b"laf"), "03000300 6c6166"),
        (
            Record::Request {
                envelope: TAGGED,
                total: 0x47_4645_4443,
                send_id: 0x5453_5251,
                unasked_len: 0x6463_6261,
            },
            "04002800 0001 0000 00000000 1112131415161718 0102030405060708 4344454647000000 \
             51525354 61626364",
        ),
        (
            Record::Pull(Pull {
                send_id: 0x5453_5251,
                transfer_id: 0x7473_7271,
                offset: 0x8786_8584_8382_8180,
                len: 0x9796_9594_9392_9190,
                window: 0xa4a3_a2a1,
                last: true,
            }),
            "05011c00 51525354 71727374 8081828384858687 9091929394959697 a1a2a3a4",
        ),
        (Record::Close, "06000000"),
        (
            Record::Ack(Ack {
                lane: lane::BULK,
                delay_us: 0x0201,
                is_exact: true,
                sent_at_us: 0xb4b3_b2b1,
                cumulative: 0xc4c3_c2c1,
                bitmap: &bitmap,
            }),
            "10001400 01 01 0102 b1b2b3b4 c1c2c3c4 d1d2d3d4d5d6d7d8",
        ),
    ];
    for (record, hex) in records {
        let mut out = vec![0; record.len()];
        assert_eq!(record.emit(&mut out), out.len());
        assert_eq!(out, bytes(hex), "{record:?}");
        assert_eq!(Records::new(&out).collect::<Vec<_>>(), [Ok(record)]);
    }
}

#[test]
fn a_segment_begins_with_these_bytes() {
    let offset = 0x8786_8584_8382_8180;
    for (transfer, hex) in [
        (Transfer::Pulled(0x5453_5251), "51525354 00000000 8081828384858687"),
        (Transfer::Unasked(0x5453_5251), "51525354 01000000 8081828384858687"),
    ] {
        let mut out = [0; SEGMENT_PREFIX_LEN];
        Segment::emit_prefix(transfer, offset, &mut out);
        assert_eq!(out[..], bytes(hex));
        let segment = Segment::parse(&out).unwrap();
        assert_eq!((segment.transfer, segment.offset), (transfer, offset));
    }
}

/// The header, then the message of `each_record_is_these_bytes`.
const PLAIN: &str = "57 01 01 05 81df69d0 4c0d51d3ed160441 1112131415161718 2122232425262728 \
     01020304 31323334 41424344 5152 6162 \
     01001e00 0001 0000 00000000 1112131415161718 0102030405060708 7769676c6166";

#[test]
fn a_plain_datagram_is_these_bytes() {
    let mut datagram = vec![0; HEADER_LEN];
    datagram.extend(&bytes(PLAIN)[HEADER_LEN..]);
    seal(&HEADER, &KEY, &mut datagram);
    assert_eq!(datagram, bytes(PLAIN));
    let (header, body) = open(&KEY, &datagram).unwrap();
    assert_eq!((header, body), (HEADER, &datagram[HEADER_LEN..]));
}

#[test]
#[cfg_attr(miri, ignore = "it cannot run the assembler of AES-GCM")]
fn an_encrypted_datagram_is_these_bytes() {
    let hex = "57 01 81 05 00000000 7172737475767778 1112131415161718 2122232425262728 \
         01020304 31323334 41424344 5152 6162 \
         9369bc986164fabca8914cf6ca1e3b218060e132b4c5bbd1d3087774a710869960be \
         5a59ef57cdc8c5d8f59c69d90307a4eb";
    let body = bytes(PLAIN)[HEADER_LEN..].to_vec();
    let mut datagram = [&[0; HEADER_LEN], body.as_slice(), &[0; TAG_LEN]].concat();
    let cipher = JobCipher::new(&KEY).of_sender(HEADER.source);
    cipher.seal(&HEADER, 0x7877_7675_7473_7271, &mut datagram);
    assert_eq!(datagram, bytes(hex));
    assert_eq!(cipher.open(&datagram, &mut Vec::new()), Ok(body.as_slice()));
}
