//! Half a round trip of one tagged message between two endpoints of one node,
//! in two threads, one pinned to each of the first two cores: what the
//! endpoint adds to the floor of the near lane.
//!
//! `cargo run --release -p wiglaf-endpoint --example near_pingpong`

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use wiglaf_endpoint::{
    Class, CompleteWhen, Endpoint, Epoch, JobKey, PeerId, RecvOp, Region, SendOp, Setup, Side,
};
use wiglaf_link_shm::ShmLink;

const ROUNDS: usize = 200_000;

fn open(port: u16, epoch: u64) -> Endpoint {
    let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    Endpoint::new(Setup {
        epoch: Epoch(epoch),
        key: JobKey::default(),
        links: vec![Box::new(ShmLink::open(at, epoch).expect("shared memory"))],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
        encrypt: false,
    })
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("two cores");
}

fn send(endpoint: &mut Endpoint, peer: PeerId, bytes: &mut [u8]) {
    let op = SendOp {
        peer,
        class: Class::Tagged,
        tag: 7,
        data: Some(1),
        context: 0,
        complete: CompleteWhen::Transmit,
        report: false,
        inject: true,
    };
    let region = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
    // SAFETY: an inject; the buffer is read before the call returns.
    while unsafe { endpoint.post_send(&op, &[region]) }.is_err() {
        endpoint.progress();
    }
}

fn receive(endpoint: &mut Endpoint, from: PeerId, bytes: &mut [u8]) {
    let op = RecvOp {
        class: Class::Tagged,
        from: Some(from),
        tag: 7,
        ignore: 0,
        context: 1,
        report: true,
        multi_min_free: None,
    };
    let region = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
    // SAFETY: the buffer outlives the operation, which completes below.
    unsafe { endpoint.post_recv(&op, &[region]) }.expect("posted");
    while endpoint.pop_completion(Side::Recv).is_none() {
        endpoint.progress();
    }
}

fn main() {
    let epoch = u64::from(std::process::id()) << 32;
    let (mut a, mut b) = (open(1, epoch + 1), open(2, epoch + 2));
    let (to_b, to_a) = (a.insert(b.name()), b.insert(a.name()));
    for len in [0, 8, 64, 256, 1024, 4096] {
        let (mut bytes, mut others) = (vec![0; len], vec![0; len]);
        std::thread::scope(|scope| {
            let (a, b) = (&mut a, &mut b);
            scope.spawn(move || {
                pin(1);
                for _ in 0..ROUNDS {
                    receive(b, to_a, &mut others);
                    send(b, to_a, &mut others);
                }
            });
            pin(0);
            let mut times: Vec<u64> = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                let began = Instant::now();
                send(a, to_b, &mut bytes);
                receive(a, to_b, &mut bytes);
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
