use wiglaf_wire::{Class, JobKey};

use super::*;
use crate::{Path, Wanted};

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

struct Nobody;

impl Source for Nobody {
    fn read(&self, _: u64, _: u64, _: &mut [u8]) {}
}

impl Sink for Nobody {
    fn message(&mut self, _: PeerId, _: &Envelope, _: &[u8]) -> bool {
        true
    }
    fn first(&mut self, _: PeerId, _: &Envelope, _: u64, _: &[u8]) {}
    fn next(&mut self, _: PeerId, _: &[u8], _: bool) -> bool {
        true
    }
    fn request(&mut self, _: PeerId, _: &Envelope, _: u64, _: u32) -> Option<Wanted> {
        None
    }
    fn segment(&mut self, _: u64, _: u64, _: &[u8]) {}
    fn pulled(&mut self, _: u64, _: bool) {}
    fn sent(&mut self, _: u64, _: bool) {}
    fn gone(&mut self, _: PeerId, _: Gone) {}
}

/// Else whoever looks at the timers would never come back.
#[test]
fn who_is_given_up_at_a_slow_pace_wants_nothing_more() {
    let path = Path {
        frame_len_max: 1472,
        frame_len_sure: 1472,
        latency_train_max: 1,
        bulk_train_max: 8,
        bulk_window_len: 64 * 1024,
        bulk_port: 7001,
    };
    let mut transport = Transport::new(Config {
        epoch: Epoch(10),
        key: JobKey([5; 16]),
        encrypt: false,
        paths: vec![path],
        silence_limit: Duration::from_secs(60),
        flow_control: true,
    });
    let peer = transport.connect("10.0.0.2:7000".parse().unwrap(), Epoch(11), 0);
    transport.peers[peer.0].slow_down();
    let envelope = Envelope::new(Class::Tagged, 1, None);
    transport.send(peer, envelope, 8, 1, true, &Nobody).unwrap();
    assert!(transport.poll_transmit(at(1), &Nobody, &mut [0; 1472]).is_some());
    transport.send(peer, envelope, 8, 2, true, &Nobody).unwrap();
    assert!(transport.poll_transmit(at(1), &Nobody, &mut [0; 1472]).is_none(), "it is paced");
    transport.give_up(peer, Gone::Unreachable, &mut Nobody);
    assert_eq!(transport.peers[peer.0].deadline(), None);
    transport.handle_timeout(at(10_000_000), &mut Nobody);
    assert_eq!(transport.poll_timeout(), None);
}
