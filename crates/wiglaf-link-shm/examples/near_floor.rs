//! The floor of the near lane: half a round trip of one record between two
//! threads, one pinned to each of the first two cores, with nothing above.
//!
//! `cargo run --release -p wiglaf-link-shm --example near_floor`

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use wiglaf_link::Link;
use wiglaf_link::near::{Head, NearId, NearSink, Payload, Pushed};
use wiglaf_link_shm::ShmLink;

const ROUNDS: usize = 200_000;

/// Keeps the last record, as a receiver would.
#[derive(Default)]
struct Last {
    from: Option<NearId>,
    records: usize,
    bytes: Vec<u8>,
}

impl NearSink for Last {
    fn joined(&mut self, peer: NearId, _at: SocketAddrV4, _epoch: u64) {
        self.from = Some(peer);
    }

    fn record(&mut self, _from: NearId, _head: &Head, payload: &dyn Payload) {
        self.bytes.resize(payload.len(), 0);
        let mut room = [MaybeUninit::uninit(); 4096];
        payload.read(0, &mut room[..payload.len()]);
        self.records += 1;
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("two cores");
}

fn await_record(link: &mut ShmLink, last: &mut Last) {
    let before = last.records;
    while last.records == before {
        link.near().expect("a lane").poll(last);
    }
}

fn send(link: &mut ShmLink, to: NearId, payload: &[u8]) {
    while link.near().expect("a lane").push(to, &[1, 2, 3], &[payload]) == Pushed::Full {}
}

fn main() {
    let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let epoch = u64::from(std::process::id()) << 32;
    let (mut a, mut b) = (
        ShmLink::open(at(1), epoch + 1).expect("shared memory"),
        ShmLink::open(at(2), epoch + 2).expect("shared memory"),
    );
    for link in [&mut a, &mut b] {
        link.near();
    }
    a.add_peer(at(2), epoch + 2);
    b.add_peer(at(1), epoch + 1);
    let to_b = a.near().and_then(|near| near.join(at(2), epoch + 2)).expect("a peer");
    let to_a = b.near().and_then(|near| near.join(at(1), epoch + 1)).expect("a peer");
    for len in [0, 8, 32, 64, 256, 1024, 4096] {
        let payload = vec![7; len];
        std::thread::scope(|scope| {
            let (a, b, payload) = (&mut a, &mut b, &payload);
            scope.spawn(move || {
                pin(1);
                let mut last = Last::default();
                for _ in 0..ROUNDS {
                    await_record(b, &mut last);
                    send(b, to_a, payload);
                }
            });
            pin(0);
            let mut last = Last::default();
            let mut times: Vec<u64> = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                let began = Instant::now();
                send(a, to_b, payload);
                await_record(a, &mut last);
                times.push(began.elapsed().as_nanos() as u64 / 2);
            }
            times.sort_unstable();
            println!(
                "{len:5} B: p50 {} ns, p99 {} ns",
                times[ROUNDS / 2],
                times[ROUNDS * 99 / 100]
            );
        });
    }
}
