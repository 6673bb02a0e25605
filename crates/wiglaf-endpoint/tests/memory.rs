//! What a peer costs in memory, counted at the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use wiglaf_transport::{
    Config, Gone, Instant, Path, PeerId, Sink, Source, Transport as Protocol, Wanted,
};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

/// Bytes that are allocated.
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator unchanged, which keeps the contract;
// the counter is touched only besides.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's contract, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Takes everything at once and keeps nothing.
struct App;

impl Source for App {
    fn read(&self, _: u64, _: u64, out: &mut [u8]) {
        out.fill(1);
    }
}

impl Sink for App {
    fn message(&mut self, _: PeerId, _: &Envelope, _: &[u8]) -> bool {
        true
    }
    fn first(&mut self, _: PeerId, _: &Envelope, _: u64, _: &[u8]) {}
    fn next(&mut self, _: PeerId, _: &[u8], _: bool) -> bool {
        true
    }
    fn request(&mut self, _: PeerId, _: &Envelope, total: u64, _: u32) -> Option<Wanted> {
        Some(Wanted { len: total, token: 1 })
    }
    fn segment(&mut self, _: u64, _: u64, _: &[u8]) {}
    fn pulled(&mut self, _: u64, _: bool) {}
    fn sent(&mut self, _: u64, _: bool) {}
    fn gone(&mut self, _: PeerId, _: Gone) {}
}

fn address(node: u32) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from(0x0a00_0001 + node), 7)
}

fn protocol(epoch: u64) -> Protocol {
    let path = Path {
        frame_len_max: 1472,
        frame_len_sure: 1472,
        latency_train_max: 1,
        bulk_train_max: 16,
        bulk_window_len: 4 << 20,
        bulk_port: 8,
    };
    Protocol::new(Config {
        epoch: Epoch(epoch),
        key: JobKey([0; 16]),
        paths: vec![path],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

/// Moves all that each has for the other, until nothing is left.
fn settle(now: &mut Instant, hub: &mut Protocol, spoke: &mut Protocol, spoke_at: SocketAddrV4) {
    let mut out = vec![0; 1 << 16];
    for _ in 0..1000 {
        *now = *now + Duration::from_micros(20);
        let moved = carry(*now, hub, spoke, address(0), &mut out)
            | carry(*now, spoke, hub, spoke_at, &mut out);
        if !moved && hub.is_drained() && spoke.is_drained() {
            return;
        }
    }
    panic!("it does not settle");
}

/// Moves what `from` has for `to` now. True when there was anything.
fn carry(
    now: Instant,
    from: &mut Protocol,
    to: &mut Protocol,
    from_at: SocketAddrV4,
    out: &mut [u8],
) -> bool {
    from.handle_timeout(now, &mut App);
    let mut moved = false;
    while let Some(t) = from.poll_transmit(now, &App, out) {
        moved = true;
        for datagram in out[..t.len].chunks(t.segment_len) {
            to.handle_datagram(now, from_at, 0, datagram, &mut App);
        }
    }
    moved
}

/// Bytes that a hub keeps for each of 10,000 peers with whom it exchanged `lens` once, both ways.
fn bytes_per_peer(lens: &[usize]) -> usize {
    const PEERS: u32 = 10_000;
    let mut hub = protocol(1);
    let mut now = Instant::from_nanos(1);
    let before = BYTES.load(Ordering::Relaxed);
    for node in 1..=PEERS {
        let own = u64::from(node) + 1;
        let mut spoke = protocol(own);
        let to_spoke = hub.connect(address(node), Epoch(own), 0);
        let to_hub = spoke.connect(address(0), Epoch(1), 0);
        for len in lens {
            let envelope = Envelope::new(Class::Tagged, 1, None);
            hub.send(to_spoke, envelope, *len, 1, false, &App).unwrap();
            spoke.send(to_hub, envelope, *len, 1, false, &App).unwrap();
        }
        settle(&mut now, &mut hub, &mut spoke, address(node));
    }
    // All timers have passed.
    now = now + Duration::from_secs(1);
    hub.handle_timeout(now, &mut App);
    (BYTES.load(Ordering::Relaxed) - before) / PEERS as usize
}

/// One test, because the counter sees all threads.
#[test]
fn an_idle_peer_costs_less_than_2_kib() {
    for (what, lens) in [
        ("known by address", &[][..]),
        ("after a short message", &[8]),
        ("after 400 messages of 1 KiB", &[1024; 400]),
        ("after messages of 64 KiB", &[1 << 16; 4]),
    ] {
        let bytes = bytes_per_peer(lens);
        println!("{what}: {bytes} bytes");
        assert!(bytes <= 2048, "{what}: {bytes} bytes");
    }
}
