//! What is recorded and sent again; the counts of encrypted datagrams.

use std::collections::HashSet;
use std::time::Duration;

use wiglaf_transport::Instant;
use wiglaf_transport::limits::CREDIT_INITIAL;
use wiglaf_wire::encrypted::{JobCipher, TAG_LEN};
use wiglaf_wire::{Class, Envelope, Epoch, HEADER_LEN, Header, Kind, encrypted};

use crate::net::{App, KEY, Net, address, transport};

#[test]
fn what_is_recorded_and_sent_again_changes_nothing() {
    replay(Net::new());
}

#[test]
fn what_is_recorded_encrypted_and_sent_again_changes_nothing() {
    replay(Net::encrypted([true; 2]));
}

/// Everything that crossed the wire comes again, in every order of kinds, when 32 bits of credit
/// and acknowledgements would mean something later.
fn replay(mut net: Net) {
    let mut recorded = [Vec::new(), Vec::new()];
    for tag in 0..40 {
        net.send(0, tag, 8).unwrap();
        net.send(1, tag, 200_000).unwrap();
        for _ in 0..4 {
            for (from, kept) in recorded.iter_mut().enumerate() {
                let datagrams = net.outgoing(from);
                net.deliver(1 - from, &datagrams);
                kept.extend(datagrams);
            }
            net.advance(Duration::from_micros(100));
        }
    }
    let kinds = |kind| recorded[1].iter().filter(|d| d[2] & 0x7f == kind).count();
    assert!(kinds(1) > 0 && kinds(2) > 0 && recorded.iter().flatten().any(|d| d[2] & 0x7f == 3));
    net.settle();
    let seen = |net: &Net| {
        net.sides.each_ref().map(|side| {
            let peer = side.transport.peer(side.peer).unwrap();
            let app = (side.app.tags.clone(), side.app.segments.len(), side.app.sent.clone());
            (app, peer.credit_left, peer.in_flight, peer.traffic, side.app.gone.clone())
        })
    };
    let before = seen(&net);
    let refused = |net: &Net| {
        let stats = net.sides.each_ref().map(|side| *side.transport.stats());
        stats.map(|s| s.duplicates + s.drop_replayed)
    };
    let old = refused(&net);
    net.deliver(1, &recorded[0]);
    net.deliver(0, &recorded[1]);
    let new = refused(&net);
    assert_eq!(new[0] - old[0], recorded[1].len() as u64);
    assert_eq!(new[1] - old[1], recorded[0].len() as u64);
    assert_eq!(seen(&net), before);
}

/// The count of each encrypted datagram: with its sender's epoch it must be new.
fn count_of(datagram: &[u8]) -> (u64, u64) {
    let (header, count) = encrypted::read(datagram).unwrap();
    (header.source.0, count)
}

#[test]
fn no_two_datagrams_have_the_same_count_whatever_is_sent_again() {
    let mut net = Net::encrypted([true; 2]);
    let (mut counts, mut packets) = (HashSet::new(), HashSet::new());
    let mut again = 0;
    for tag in 0..40 {
        net.send(0, tag, 20_000).unwrap();
        net.send(1, tag, 200_000).unwrap();
        for turn in 0..6 {
            for from in [0, 1] {
                let datagrams = net.outgoing(from);
                for datagram in &datagrams {
                    assert!(datagram.len() <= 1472);
                    assert!(counts.insert(count_of(datagram)), "a count comes twice");
                    let (header, _) = encrypted::read(datagram).unwrap();
                    let packet = (from, datagram[2], header.sequence);
                    again += u64::from(!packets.insert(packet));
                }
                // Every fourth turn is lost.
                if (tag + turn) % 4 != 0 {
                    net.deliver(1 - from, &datagrams);
                }
            }
            net.advance(Duration::from_millis(1));
        }
    }
    assert!(again > 0, "nothing was sent again");
    for _ in 0..100 {
        net.settle();
        net.advance(Duration::from_millis(200));
    }
    assert_eq!(
        net.sides[1].app.tags.len(),
        40,
        "{:?}",
        net.sides.each_ref().map(|side| *side.transport.stats())
    );
}

#[test]
fn no_two_peers_are_sent_the_same_count() {
    let mut hub = transport(10, Duration::from_secs(60), true);
    let (app, mut counts) = (App::default(), HashSet::new());
    let mut out = vec![0; 8 * 1472];
    for turn in 0..20 {
        for peer in 1..4 {
            let peer = hub.connect(address(peer), Epoch(10 + peer as u64), 0);
            let envelope = Envelope::new(Class::Tagged, turn, None);
            hub.send(peer, envelope, 5_000, turn, false, &app).unwrap();
        }
        while let Some(t) = hub.poll_transmit(Instant::from_nanos(turn + 1), &app, &mut out) {
            for datagram in out[..t.len].chunks(t.segment_len) {
                assert!(counts.insert(count_of(datagram)), "a count comes twice");
            }
        }
    }
    assert!(counts.len() > 3 * 60, "{} datagrams", counts.len());
}

#[test]
fn who_does_not_encrypt_is_refused_by_who_does() {
    for encrypts in [0, 1] {
        let mut net = Net::encrypted([encrypts == 0, encrypts == 1]);
        for from in [0, 1] {
            net.send(from, 1, 8).unwrap();
            let datagrams = net.outgoing(from);
            net.deliver(1 - from, &datagrams);
        }
        for side in &net.sides {
            assert_eq!(side.transport.stats().drop_encryption, 1);
            assert!(side.app.tags.is_empty());
        }
    }
}

/// The number may be new again by then: it has 40 bits.
#[test]
fn a_count_far_behind_is_refused() {
    let mut net = Net::encrypted([true; 2]);
    let cipher = JobCipher::new(&KEY).of_sender(net.sides[0].epoch);
    let header = Header {
        kind: Kind::Ordered,
        source: net.sides[0].epoch,
        destination: net.sides[1].epoch,
        sequence: 0,
        ack: 0,
        credit: CREDIT_INITIAL as u32,
        ack_delay_us: 0,
        bulk_port: 7001,
    };
    let sealed = |sequence, count| {
        let mut datagram = vec![0; HEADER_LEN + TAG_LEN];
        cipher.seal(&Header { sequence, ..header }, count, &mut datagram);
        datagram
    };
    net.deliver(1, &[sealed(0, (1 << 38) + 2), sealed(1, 2), sealed(2, 1)]);
    let stats = net.sides[1].transport.stats();
    assert_eq!((stats.drop_replayed, stats.drop_proof), (1, 0));
}
