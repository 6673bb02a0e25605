//! An endpoint with everything on offer, and a peer that has the job's key and
//! means no good: it sends what it likes, in any order.
//!
//! Nothing it does may panic, reach memory that is not exposed to it, or
//! change memory that it may only read.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use wiglaf_endpoint::{
    Access, Address, AtomicOp, Class, CompleteWhen, Element, Endpoint, Epoch, Function, Hold,
    JobKey, PeerId, RecvOp, RemoteOp, Scratch, SendOp, Setup, Side,
};
use wiglaf_link::loopback::{Hub, LoopbackLink};
use wiglaf_link::{Lane, Link, Train};
use wiglaf_wire::{
    Envelope, HEADER_LEN, Header, Kind, NUMBER_BITS, Record, SEGMENT_PREFIX_LEN, Segment, Transfer,
    seal,
};

use crate::Tape;

const KEY: JobKey = JobKey([5; 16]);
const US: u64 = 1;
const THEM: u64 = 2;
const STEPS_MAX: usize = 200;
const LEN: usize = 4096;
/// What the peer may read, and must not change.
const READABLE: u64 = 10;
/// What it may write.
const WRITABLE: u64 = 11;
const BASE: u64 = 0x1000;

const fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

struct Liar {
    link: LoopbackLink,
    sequences: [u64; 3],
}

impl Liar {
    /// Sends a body in the next packet of a lane, or, when `odd` says so, any other.
    fn send(&mut self, kind: Kind, odd: u8, body: &[u8]) {
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
        let header = Header {
            kind,
            source: Epoch(THEM),
            destination: Epoch(US),
            sequence,
            ack: u32::from(odd),
            credit: 1 << 20,
            ack_delay_us: 0,
            bulk_port: 2,
        };
        let mut datagram = vec![0; HEADER_LEN];
        datagram.extend_from_slice(body);
        seal(&header, &KEY, &mut datagram);
        let train =
            Train { to: at(1), lane: Lane::Latency, segment_len: datagram.len(), bytes: &datagram };
        // One that finds no room is lost, like any other datagram.
        let _ = self.link.send(&train);
        let _ = self.link.recv(&mut |_, _| {});
    }
}

/// See the module.
pub(crate) fn endpoint(bytes: &[u8]) {
    let hub = Hub::new();
    let link = hub.link(at(1), 256).expect("a free address");
    let mut liar = Liar { link: hub.link(at(2), 4096).expect("a free address"), sequences: [0; 3] };
    let mut endpoint = Endpoint::new(Setup {
        epoch: Epoch(US),
        key: KEY,
        links: vec![Box::new(link)],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    });
    let peer = endpoint.insert(Address { at: at(2), epoch: Epoch(THEM) });
    // Each operation has memory of its own, which outlives the endpoint's last call.
    let memory: Vec<Scratch> = (0..8).map(|_| Scratch::new(LEN)).collect();
    let readable = Access { read: true, write: false };
    for (key, access, memory) in [
        (READABLE, readable, &memory[0]),
        (WRITABLE, Access { read: true, write: true }, &memory[1]),
    ] {
        // SAFETY: the memory outlives the endpoint.
        let exposed =
            unsafe { endpoint.exposed().expose(key, BASE, access, &[memory.region(0..LEN)]) };
        exposed.expect("a free key");
    }
    let mut tape = Tape::new(bytes);
    for _ in 0..STEPS_MAX {
        if tape.is_empty() {
            break;
        }
        step(&mut endpoint, &mut liar, peer, &memory, &mut tape);
        for _ in 0..2 {
            endpoint.progress();
        }
        for side in [Side::Send, Side::Recv] {
            while endpoint.pop_completion(side).is_some() {}
        }
        while endpoint.pop_active().is_some() || endpoint.pop_step().is_some() {}
    }
    drop(endpoint);
    // SAFETY: nothing is under way any more.
    let content = unsafe { memory[0].copied(0..LEN) };
    assert!(content.iter().all(|byte| *byte == 0), "what may be read only was changed");
}

fn step(
    endpoint: &mut Endpoint,
    liar: &mut Liar,
    peer: PeerId,
    memory: &[Scratch],
    tape: &mut Tape<'_>,
) {
    let (what, odd) = (tape.byte(), tape.byte());
    match what % 8 {
        0 => liar.send(Kind::Ordered, odd, tape.piece()),
        1..4 => record(liar, odd, tape),
        4 => {
            let mut body = vec![0; SEGMENT_PREFIX_LEN];
            let offset = u64::from_le_bytes(tape.bytes()) >> (odd % 64);
            let id = u32::from(tape.byte());
            let is_pulled = tape.byte().is_multiple_of(2);
            let transfer = if is_pulled { Transfer::Pulled(id) } else { Transfer::Unasked(id) };
            Segment::emit_prefix(transfer, offset, &mut body);
            body.extend_from_slice(tape.piece());
            liar.send(Kind::Bulk, odd, &body);
        }
        5 => liar.send(Kind::Control, odd, tape.piece()),
        _ => post(endpoint, peer, memory, tape),
    }
}

/// A well-formed record of any content.
fn record(liar: &mut Liar, odd: u8, tape: &mut Tape<'_>) {
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
    let envelope = Envelope { class, operation, tag, data, address };
    let total = u64::from_le_bytes(tape.bytes()) >> (tape.byte() % 64);
    let payload = tape.piece();
    let record = match tape.byte() % 6 {
        0 | 1 => Record::Message(envelope, payload),
        2 => Record::First { envelope, total, payload },
        3 => Record::Next(payload),
        4 => {
            let unasked_len = total as u32 >> (operation % 32);
            Record::Request { envelope, total, send_id: operation, unasked_len }
        }
        _ => Record::Close,
    };
    // One good-bye ends it all: rarely.
    if record == Record::Close && odd < 250 {
        return;
    }
    let mut body = vec![0; record.len()];
    let len = record.emit(&mut body);
    liar.send(Kind::Ordered, odd, &body[..len]);
}

/// The endpoint's own side: receives, sends and one-sided operations.
fn post(endpoint: &mut Endpoint, peer: PeerId, memory: &[Scratch], tape: &mut Tape<'_>) {
    let (what, tag, len) = (tape.byte(), u64::from(tape.byte() % 8), tape.below(LEN));
    let context = 1 + usize::from(what);
    let class = [Class::Tagged, Class::Untagged, Class::Collective][usize::from(tape.byte() % 3)];
    let recv = RecvOp {
        class,
        from: tape.byte().is_multiple_of(2).then_some(peer),
        tag,
        ignore: u64::from(tape.byte() % 4),
        context,
        report: true,
        multi_min_free: None,
    };
    let remote = RemoteOp {
        peer,
        key: tag,
        address: BASE,
        data: None,
        context,
        report: true,
        inject: false,
        hold: Hold::Nothing,
    };
    let send = SendOp {
        peer,
        class,
        tag,
        data: Some(tag),
        context,
        complete: CompleteWhen::Delivery,
        report: true,
        inject: false,
    };
    let own = |index: usize| [memory[index].region(0..len)];
    // SAFETY: all memory outlives the endpoint, and nobody else reads or writes it meanwhile.
    let _ = unsafe {
        match what % 8 {
            0 | 1 => endpoint.post_recv(&recv, &own(2)),
            2 => endpoint.post_send(&send, &own(3)),
            3 => endpoint.post_write(&remote, &own(4)),
            4 => endpoint.post_read(&remote, &own(5)),
            5 => {
                let atomic =
                    AtomicOp { element: Element::U64, function: Function::Sum, fetch: true };
                let [operand, result] = [6, 7].map(|index| [memory[index].region(0..8)]);
                endpoint.post_atomic(&remote, atomic, &operand, &[], &result)
            }
            6 => {
                endpoint.cancel(context);
                Ok(())
            }
            _ => {
                endpoint.peek(&recv, false);
                Ok(())
            }
        }
    };
}
