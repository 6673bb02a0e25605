//! The peer of [`crate::hostile`]: it has the job's key, hears all that is sent to it, and tells lies
//! that fit.

use std::net::SocketAddrV4;

use wiglaf_link::loopback::LoopbackLink;
use wiglaf_link::{Lane, Link, Train};
use wiglaf_wire::encrypted::{JobCipher, SenderCipher};
use wiglaf_wire::{
    Ack, BITMAP_WORDS_MAX, Class, Envelope, Epoch, HEADER_LEN, Header, JobKey, Kind, NUMBER_BITS,
    Part, Pull, Record, Records, SEGMENT_PREFIX_LEN, Segment, Transfer, Trial, lane, open,
};

use crate::{Tape, sealed};

/// Where the memory begins that the endpoint exposes.
pub(crate) const BASE: u64 = 0x1000;

/// Names that the endpoint has given last, and which of its packets came.
#[derive(Default)]
struct Heard {
    end: u32,
    send_id: u32,
    transfer_id: u32,
}

impl Heard {
    fn note(&mut self, header: &Header, body: &[u8]) {
        if header.kind != Kind::Ordered {
            return;
        }
        self.end = self.end.max(header.sequence as u32 + 1);
        for record in Records::new(body).map_while(Result::ok) {
            match record {
                Record::Request { send_id, .. } => self.send_id = send_id,
                Record::Pull(pull) => self.transfer_id = pull.transfer_id,
                _ => {}
            }
        }
    }
}

/// What both sides encrypt with.
struct Ciphers {
    own: SenderCipher,
    count: u64,
    others: SenderCipher,
}

pub(crate) struct Liar {
    link: LoopbackLink,
    key: JobKey,
    /// Its own, and that of who is lied to.
    epochs: [Epoch; 2],
    to: SocketAddrV4,
    ciphers: Option<Ciphers>,
    sequences: [u64; 3],
    heard: Heard,
}

impl Liar {
    pub(crate) fn new(
        link: LoopbackLink,
        (key, encrypt): (JobKey, bool),
        epochs: [Epoch; 2],
        to: SocketAddrV4,
    ) -> Self {
        let job = JobCipher::new(&key);
        let [own, others] = epochs.map(|epoch| job.of_sender(epoch));
        let ciphers = encrypt.then_some(Ciphers { own, count: 0, others });
        Self { link, key, epochs, to, ciphers, sequences: [0; 3], heard: Heard::default() }
    }

    /// Takes what has come.
    pub(crate) fn listen(&mut self) {
        let Self { link, key, ciphers, heard, .. } = self;
        let mut room = Vec::new();
        let _ = link.recv(&mut |_, datagram| match ciphers {
            None => {
                let (header, body) = open(key, datagram).expect("the endpoint seals what it sends");
                heard.note(&header, body);
            }
            Some(ciphers) => {
                let read = wiglaf_wire::encrypted::read(datagram);
                let (header, _) = read.expect("the endpoint encrypts what it sends");
                let body = ciphers.others.open(datagram, &mut room);
                heard.note(&header, body.expect("the endpoint encrypts with its own key"));
            }
        });
    }

    /// Sends a body in the next packet of a lane, or, when `odd` says so, any other.
    pub(crate) fn send(&mut self, kind: Kind, odd: u8, body: &[u8]) {
        let lane = match kind {
            Kind::Ordered => 0,
            Kind::Bulk => 1,
            Kind::Control => 2,
        };
        let mut sequence = self.sequences[lane];
        match odd {
            0..240 => self.sequences[lane] += 1,
            240..248 => sequence = sequence.wrapping_sub(1),
            _ => sequence = sequence.wrapping_add(u64::from(odd) << 3),
        }
        sequence %= 1 << NUMBER_BITS;
        let [source, destination] = self.epochs;
        let header = Header {
            kind,
            source,
            destination,
            sequence,
            // All that came, or what never left.
            ack: if odd < 128 { self.heard.end } else { u32::from(odd) },
            credit: 1 << 20,
            ack_delay_us: 0,
            bulk_port: 2,
        };
        let cipher = self.ciphers.as_mut().map(|ciphers| {
            ciphers.count += 1;
            (&ciphers.own, ciphers.count - 1)
        });
        let datagram = sealed(&header, &self.key, cipher, body);
        let segment_len = datagram.len();
        let train = Train { to: self.to, lane: Lane::Latency, segment_len, bytes: &datagram };
        // One that finds no room is lost, like any other datagram.
        let _ = self.link.send(&train);
    }

    /// Bulk bytes: of what was asked for, what was announced, or neither.
    pub(crate) fn segment(&mut self, odd: u8, tape: &mut Tape<'_>) {
        let mut body = vec![0; SEGMENT_PREFIX_LEN];
        let offset = u64::from_le_bytes(tape.bytes()) >> (odd % 64);
        let id = u32::from(tape.byte());
        let transfer = match tape.byte() % 4 {
            0 => Transfer::Pulled(id),
            1 => Transfer::Pulled(self.heard.transfer_id),
            _ => Transfer::Unasked(id),
        };
        Segment::emit_prefix(transfer, offset, &mut body);
        body.extend_from_slice(tape.piece());
        self.send(Kind::Bulk, odd, &body);
    }

    /// A well-formed record of any content.
    pub(crate) fn record(&mut self, odd: u8, tape: &mut Tape<'_>) {
        let envelope = envelope(tape);
        let operation = envelope.operation;
        let total = u64::from_le_bytes(tape.bytes()) >> (tape.byte() % 64);
        let payload = tape.piece();
        let record = match tape.byte() % 11 {
            0 | 1 => Record::Message(envelope, payload),
            2 => Record::First { envelope, total, payload },
            3 => Record::Next(payload),
            4 => {
                let unasked_len = total as u32 >> (operation % 32);
                Record::Request { envelope, total, send_id: operation, unasked_len }
            }
            5 | 6 => Record::Pull(self.pull(operation, tape)),
            7 => Record::Padding(payload),
            8 => {
                let words = (payload.len() / 8).min(BITMAP_WORDS_MAX);
                return self.acknowledge(odd, &payload[..8 * words], tape);
            }
            9 => return self.trial(odd, tape),
            _ => Record::Close,
        };
        // One good-bye ends it all: rarely.
        if record == Record::Close && odd < 250 {
            return;
        }
        self.send(Kind::Ordered, odd, &emitted(&record));
    }

    fn pull(&self, transfer_id: u32, tape: &mut Tape<'_>) -> Pull {
        let is_known = !tape.byte().is_multiple_of(4);
        let send_id = if is_known { self.heard.send_id } else { u32::from(tape.byte()) };
        let [offset, len] = [(); 2].map(|()| match tape.byte() {
            0..64 => 0,
            short @ 64..128 => u64::from(short),
            order => u64::from_le_bytes(tape.bytes()) >> (order % 64),
        });
        let window = u32::from_le_bytes(tape.bytes()) >> (tape.byte() % 32);
        Pull { send_id, transfer_id, offset, len, window, last: tape.byte().is_multiple_of(2) }
    }

    /// A probe, or an answer to one that may have been sent.
    fn trial(&mut self, odd: u8, tape: &mut Tape<'_>) {
        let lane = tape.byte() % 2;
        let [len, frame_len_max] = [(); 2].map(|()| match tape.byte() {
            0 => 1472,
            1 => 700,
            _ => u16::from_le_bytes(tape.bytes()),
        });
        let mut trial = Trial { lane, len, frame_len_max };
        let is_probe = tape.byte().is_multiple_of(2);
        if is_probe && tape.byte().is_multiple_of(2) {
            trial.len = HEADER_LEN as u16 + 12; // as it is
        }
        let record = if is_probe { Record::Probe(trial) } else { Record::Fits(trial) };
        let kind = if odd < 250 { Kind::Control } else { Kind::Ordered };
        self.send(kind, odd, &emitted(&record));
        if frame_len_max != 700 {
            return;
        }
        // A part of the next packet, or of one near it, which may be the last or none at all.
        let number = self.sequences[usize::from(lane)] + u64::from(tape.byte() % 2);
        let step = u16::from(tape.byte() % 4);
        let total = 128 * (step + 1) + u16::from(tape.byte() % 3);
        let payload = tape.bytes::<128>();
        let part = Part { lane, number, total, offset: 128 * step, payload: &payload };
        self.send(kind, odd, &emitted(&Record::Part(part)));
    }

    fn acknowledge(&mut self, odd: u8, bitmap: &[u8], tape: &mut Tape<'_>) {
        let is_ordered = tape.byte().is_multiple_of(2);
        let near = u32::from(tape.byte() % 4);
        let ack = Ack {
            lane: if is_ordered { lane::ORDERED } else { lane::BULK },
            delay_us: u16::from_le_bytes(tape.bytes()),
            is_exact: near == 0,
            sent_at_us: u32::from_le_bytes(tape.bytes()),
            cumulative: if is_ordered { self.heard.end.wrapping_sub(near) } else { 64 * near },
            bitmap,
        };
        let kind = if odd.is_multiple_of(2) { Kind::Control } else { Kind::Ordered };
        self.send(kind, odd, &emitted(&Record::Ack(ack)));
    }
}

fn emitted(record: &Record<'_>) -> Vec<u8> {
    let mut body = vec![0; record.len()];
    record.emit(&mut body);
    body
}

/// Whose message, and about which memory.
fn envelope(tape: &mut Tape<'_>) -> Envelope {
    use Class::{Active, Answer, Atomic, Collective, Fetch, Read, Tagged, Untagged, Write};
    let classes = [Tagged, Untagged, Active, Write, Read, Atomic, Fetch, Answer, Collective];
    let class = classes[usize::from(tape.byte()) % classes.len()];
    let tag = match tape.byte() {
        any @ 0..16 => u64::from(any),
        _ => u64::from_le_bytes(tape.bytes()),
    };
    let address = match tape.byte() {
        near @ 0..200 => BASE + u64::from(near),
        _ => u64::from_le_bytes(tape.bytes()),
    };
    let operation = u32::from(tape.byte());
    let data = tape.byte().is_multiple_of(2).then_some(tag);
    let address = if class.names_memory() { address } else { 0 };
    // Of a byte that is there already: inputs of the corpora keep their meaning.
    let is_held = tag % 5 == 4;
    Envelope { class, operation, tag, data, address, is_held }
}
