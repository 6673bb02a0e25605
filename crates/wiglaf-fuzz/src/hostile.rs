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
use wiglaf_link::loopback::Hub;
use wiglaf_wire::Kind;

use crate::Tape;
use crate::liar::{BASE, Liar};

const KEY: JobKey = JobKey([5; 16]);
const US: Epoch = Epoch(1);
const THEM: Epoch = Epoch(2);
const STEPS_MAX: usize = 200;
const LEN: usize = 4096;
/// Of what the endpoint sends and receives itself: it is announced, and asked for.
const LONG: usize = 300_000;
/// What the peer may read, and must not change.
const READABLE: u64 = 10;
/// What it may write.
const WRITABLE: u64 = 11;

const fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// See the module.
pub(crate) fn endpoint(bytes: &[u8]) {
    let hub = Hub::new();
    let link = hub.link(at(1), 256).expect("a free address");
    let mut tape = Tape::new(bytes);
    let encrypt = tape.byte() % 2 == 1;
    let theirs = hub.link(at(2), 4096).expect("a free address");
    let mut liar = Liar::new(theirs, (KEY, encrypt), [THEM, US], at(1));
    let mut endpoint = Endpoint::new(Setup {
        epoch: US,
        key: KEY,
        links: vec![Box::new(link)],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt,
    });
    let peer = endpoint.insert(Address { at: at(2), epoch: THEM });
    // Each operation has memory of its own, which outlives the endpoint's last call.
    let memory: Vec<Scratch> =
        [LEN, LEN, LONG, LONG, LONG, LONG, LEN, LEN].map(Scratch::new).into();
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
    for _ in 0..STEPS_MAX {
        if tape.is_empty() {
            break;
        }
        step(&mut endpoint, &mut liar, peer, &memory, &mut tape);
        for _ in 0..2 {
            endpoint.progress();
        }
        liar.listen();
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
        1..4 => liar.record(odd, tape),
        4 => liar.segment(odd, tape),
        5 => liar.send(Kind::Control, odd, tape.piece()),
        _ => post(endpoint, peer, memory, tape),
    }
}

/// The endpoint's own side: receives, sends and one-sided operations.
fn post(endpoint: &mut Endpoint, peer: PeerId, memory: &[Scratch], tape: &mut Tape<'_>) {
    let (what, tag) = (tape.byte(), u64::from(tape.byte() % 8));
    let len = (tape.below(LEN) << (what % 8)).min(LONG);
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
        match what / 8 % 8 {
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
