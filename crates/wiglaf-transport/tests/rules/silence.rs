//! Peers that are silent: gone, stopped, idle, or not there yet.

use std::time::Duration;

use wiglaf_transport::limits::{ACK_DELAY_MAX, PTO_MIN};
use wiglaf_transport::{Gone, PeerId, SendError};
use wiglaf_wire::{DELAY_OVERRUN, Epoch, Kind, Record};

use crate::net::{
    LONG, Net, address, announced, header_of, messages_of, pull_announced, pull_in, records_of,
};
use crate::unasked::with_wide_windows;

#[test]
fn a_port_without_listener_ends_everything_pending() {
    let mut net = Net::new();
    net.send(1, 9, 8).unwrap();
    net.settle(); // b was there once
    net.send(0, 1, 8).unwrap();
    net.send(0, 2, 200_000).unwrap();
    let refused = net.outgoing(0);
    let a = &mut net.sides[0];
    a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
    assert_eq!(a.app.sent, [(1, false), (2, false)]);
    assert_eq!(a.app.gone, [Gone::Unreachable]);
    assert_eq!(net.send(0, 3, 8), Err(SendError::PeerGone));
}

#[test]
fn silence_has_a_limit_of_its_own() {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 8).unwrap();
    for _ in 0..19 {
        net.outgoing(0);
        net.advance(Duration::from_millis(100));
    }
    assert!(net.sides[0].app.gone.is_empty());
    for _ in 0..5 {
        net.outgoing(0);
        net.advance(Duration::from_millis(100));
    }
    assert_eq!(net.sides[0].app.gone, [Gone::Silent]);
    assert_eq!(net.sides[0].app.sent, [(1, false)]);
}

/// From now on `who` hears nothing: it asks after a second, and gives up in time.
fn asks_and_gives_up(net: &mut Net, who: usize) {
    let mut asked_at = None;
    for tenths in 1..=60 {
        net.advance(Duration::from_millis(100));
        for datagram in net.outgoing(who) {
            if header_of(&datagram).kind == Kind::Ordered {
                assert_eq!(messages_of(&datagram), 0);
                asked_at.get_or_insert(tenths);
            }
        }
    }
    let asked_at = asked_at.expect("it asks");
    assert!((9..=21).contains(&asked_at), "after {asked_at} tenths of a second");
    assert_eq!(net.sides[who].app.gone, [Gone::Silent]);
}

/// A net in which `a` has announced a message that `b` does not pull, and all else is done.
fn without_a_grant() -> Net {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.sides[1].app.pull = false;
    net.send(0, 1, LONG).unwrap();
    net.settle();
    net.advance(ACK_DELAY_MAX);
    net.settle();
    net
}

/// What had gone to the peer is acknowledged: there is no packet to send again.
#[test]
fn who_awaits_a_grant_bytes_or_the_rest_of_a_message_asks_when_there_is_silence() {
    // A grant.
    let mut net = without_a_grant();
    assert!(net.sides[0].app.sent.is_empty());
    asks_and_gives_up(&mut net, 0);
    assert_eq!(net.sides[0].app.sent, [(1, false)]);
    // Bytes that it has granted.
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, LONG).unwrap();
    let request = net.outgoing(0);
    net.deliver(1, &request);
    let grant = net.outgoing(1);
    net.deliver(0, &grant);
    let bytes = net.outgoing(0);
    net.deliver(1, &bytes[..1]); // acknowledges the grant
    asks_and_gives_up(&mut net, 1);
    assert_eq!(net.sides[1].app.pulled, [false]);
    // The rest of a message in parts.
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 5_000).unwrap();
    let parts = net.outgoing(0);
    net.deliver(1, &parts[..1]);
    asks_and_gives_up(&mut net, 1);
}

/// A wire without carrier takes nothing, and says only that there is no room now.
#[test]
fn a_peer_that_its_link_never_has_room_for_is_given_up_in_time() {
    let mut net = without_a_grant();
    net.sides[0].transport.hold(PeerId(0));
    for _ in 0..60 {
        net.advance(Duration::from_millis(100));
        assert!(net.outgoing(0).is_empty());
    }
    assert_eq!(net.sides[0].app.gone, [Gone::Silent]);
}

/// All of the message is under way, so nothing is asked for; but nothing is acknowledged any more,
/// either.
#[test]
fn a_late_answer_that_asks_for_nothing_goes_by_itself() {
    let mut net = with_wide_windows();
    net.sides[1].app.pull = false;
    let (request, _lost) = announced(&mut net);
    net.deliver(1, &request);
    net.advance(ACK_DELAY_MAX);
    assert_eq!(net.outgoing(1).len(), 1, "it is acknowledged");
    pull_announced(&mut net, 0, LONG as u64);
    let pull = pull_in(&net.outgoing(1)).expect("an answer");
    assert_eq!((pull.offset, pull.len), (LONG as u64, 0));
    // The sender is dead: nobody acknowledges it.
    for _ in 0..700 {
        net.advance(Duration::from_millis(100));
        net.outgoing(1);
    }
    let b = &net.sides[1].app;
    assert_eq!((&b.gone[..], &b.pulled[..]), (&[Gone::Silent][..], &[false][..]));
}

/// Room in a link, memory that is free again, and so on: nothing of it comes from the peer.
#[test]
fn who_looks_for_something_to_send_and_finds_nothing_has_heard_nobody() {
    let mut net = without_a_grant();
    for _ in 0..60 {
        net.advance(Duration::from_millis(100));
        net.sides[0].transport.release(PeerId(0));
        net.outgoing(0); // lost
    }
    assert_eq!(net.sides[0].app.gone, [Gone::Silent]);
}

/// A stopped process, a debugger, a virtual machine that stood still.
#[test]
fn who_was_stopped_does_not_take_its_peers_for_silent() {
    let mut net = Net::with_silence_limit(Duration::from_secs(2));
    net.send(0, 1, 8).unwrap();
    net.outgoing(0); // lost
    net.advance(Duration::from_secs(3600));
    assert!(net.sides[0].app.gone.is_empty());
    net.settle();
    net.advance(Duration::from_millis(1));
    net.settle();
    assert_eq!(net.sides[1].app.tags, [1]);
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
}

#[test]
fn an_idle_session_wants_nothing() {
    let mut net = Net::new();
    net.send(0, 1, 300_000).unwrap();
    net.settle();
    net.advance(Duration::from_millis(1));
    net.settle();
    net.advance(Duration::from_secs(3600));
    net.settle();
    assert!(net.sides.iter().all(|s| s.transport.poll_timeout().is_none()));
    assert!(net.sides.iter().all(|s| s.transport.stats().probes == 0));
    assert!(net.sides.iter().all(|s| s.transport.is_drained()));
}

#[test]
fn a_peer_that_has_not_started_yet_is_waited_for() {
    let mut net = Net::new();
    net.send(0, 1, 8).unwrap();
    let mut refused = Vec::new();
    for _ in 0..9 {
        refused.extend(net.outgoing(0));
        let a = &mut net.sides[0];
        a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
        assert!(a.app.gone.is_empty());
        net.advance(Duration::from_secs(1));
    }
    let now_it_is_there = net.outgoing(0);
    net.deliver(1, &now_it_is_there);
    assert_eq!(net.sides[1].app.tags, [1]);
    // One that never comes is given up.
    net.advance(Duration::from_secs(1));
    let a = &mut net.sides[0];
    a.transport.handle_unreachable(net.now, address(1), Some(&refused[0]), &mut a.app);
    assert_eq!(a.app.gone, [Gone::Unreachable]);
}

/// All that `b` says when it has dropped frames.
fn overrun(net: &mut Net) -> Vec<Vec<u8>> {
    let b = &mut net.sides[1];
    b.transport.overrun(0);
    b.transport.tell_of_overrun(net.now);
    net.outgoing(1)
}

/// Its buffer was full of another's frames: all of the last three messages are dropped, and all probes
/// for them, until it looks again.
#[test]
fn what_an_overrun_receiver_did_not_take_goes_again_at_once() {
    for silent_ms in [2, 30, 1000] {
        let mut net = Net::new();
        for tag in 0..8 {
            net.exchange(tag, Duration::from_micros(10));
        }
        net.settle();
        let began = net.now;
        for tag in 97..100 {
            net.send(0, tag, 1400).unwrap();
        }
        while net.now.since(began) < Duration::from_millis(silent_ms) {
            let _ = net.outgoing(0); // lost
            net.advance(Duration::from_micros(100));
        }
        let _ = net.outgoing(0);
        net.now = net.now + PTO_MIN; // it went a round trip ago
        let told = overrun(&mut net);
        net.deliver(0, &told);
        let again = net.outgoing(0);
        net.deliver(1, &again);
        assert_eq!(net.sides[1].app.tags[8..], [97, 98, 99], "{silent_ms} ms");
    }
}

/// Who is away for 20 ms between any two looks has a smoothed round trip of that.
#[test]
fn the_absence_of_an_overrun_receiver_is_not_waited_for() {
    let mut net = Net::new();
    net.exchange(0, Duration::from_micros(10));
    for tag in 1..20 {
        net.send(0, tag, 8).unwrap();
        let out = net.outgoing(0);
        let away = Duration::from_millis(20);
        net.now = net.now + away;
        net.deliver_after(1, &out, Some(away));
        let told = net.outgoing(1);
        net.deliver(0, &told);
        net.advance(ACK_DELAY_MAX);
        net.settle();
    }
    let smoothed = net.sides[0].transport.peer(net.sides[0].peer).unwrap().rtt;
    assert!(smoothed > Duration::from_millis(5), "{smoothed:?}");
    net.send(0, 99, 8).unwrap();
    let _ = net.outgoing(0); // dropped
    net.now = net.now + PTO_MIN;
    net.send(0, 100, 1400).unwrap();
    let _ = net.outgoing(0); // perhaps not there yet
    let told = overrun(&mut net);
    net.deliver(0, &told);
    let again = net.outgoing(0);
    net.deliver(1, &again);
    assert_eq!(net.sides[1].app.tags.last(), Some(&99));
    net.advance(PTO_MIN);
    let again = net.outgoing(0);
    net.deliver(1, &again);
    assert_eq!(net.sides[1].app.tags.last(), Some(&100), "a round trip later");
}

/// What has just been sent may be there yet.
#[test]
fn what_went_less_than_a_round_trip_ago_does_not_go_again() {
    let mut net = Net::new();
    for tag in 0..8 {
        net.exchange(tag, Duration::from_micros(10));
    }
    net.settle();
    net.send(0, 9, 8).unwrap();
    let _ = net.outgoing(0);
    let told = overrun(&mut net);
    net.deliver(0, &told);
    assert_eq!(net.outgoing(0).len(), 0);
}

#[test]
fn who_has_lost_frames_tells_all_whom_it_has_heard() {
    let mut net = Net::new();
    net.exchange(0, Duration::from_micros(10));
    net.settle();
    /// How many of the datagrams tell of it.
    fn telling(datagrams: &[Vec<u8>]) -> usize {
        let tells = |record: &Record<'_>| matches!(record, Record::Ack(ack) if ack.delay_us == DELAY_OVERRUN);
        datagrams.iter().filter(|d| records_of(d).iter().any(tells)).count()
    }
    // Not heard yet: nothing can be said to it.
    net.sides[1].transport.connect("10.0.0.9:7000".parse().unwrap(), Epoch(99), 0);
    assert_eq!(telling(&overrun(&mut net)), 1);
    assert_eq!(telling(&overrun(&mut net)), 0, "not again at once");
    let due = net.sides[1].transport.poll_timeout().expect("it is owed");
    assert!(due.since(net.now) <= Duration::from_millis(1), "who sleeps is woken for it");
    net.now = net.now + Duration::from_millis(1);
    assert!(net.sides[1].transport.tell_of_overrun(net.now));
    assert_eq!(telling(&net.outgoing(1)), 1, "what was not told then is told now");
    assert!(!net.sides[1].transport.owes_overrun());
    net.now = net.now + Duration::from_millis(4);
    net.sides[1].transport.overrun(1);
    assert!(net.sides[1].transport.tell_of_overrun(net.now));
    assert_eq!(telling(&net.outgoing(1)), 0, "nobody is reached by that path");
}

/// Of hundreds that do nothing but tell each other, each would be overrun again by that.
#[test]
fn who_tells_in_vain_tells_less_and_less() {
    let mut net = Net::new();
    net.exchange(0, Duration::from_micros(10));
    net.settle();
    let told = |net: &mut Net, ms: u64| {
        let told = (0..ms).filter(|_| {
            net.now = net.now + Duration::from_millis(1);
            let b = &mut net.sides[1].transport;
            b.overrun(0);
            b.tell_of_overrun(net.now)
        });
        told.count()
    };
    assert!((6..=8).contains(&told(&mut net, 100)));
    assert!((4..=6).contains(&told(&mut net, 1000)));
    net.exchange(1, Duration::from_micros(10));
    assert!((6..=8).contains(&told(&mut net, 100)), "a packet has come");
}

/// Both have sent their first message at once, and for so many tenths of a second `a` hears `b`, unless it stands
/// still, and `b` hears nothing.
fn half_deaf(encrypt: bool, tenths: usize, b_runs: impl Fn(usize) -> bool) -> Net {
    let mut net = Net::with(Duration::from_secs(600), [encrypt; 2]);
    net.send(0, 1, 8).unwrap();
    net.send(1, 2, 8).unwrap();
    for tenth in 0..tenths {
        if b_runs(tenth) {
            let heard = net.outgoing(1);
            net.deliver(0, &heard);
        }
        net.outgoing(0); // dropped by b's firewall
        net.advance(Duration::from_millis(100));
    }
    net
}

#[test]
fn a_peer_that_is_heard_and_acknowledges_nothing_is_given_up() {
    for encrypt in [false, true] {
        let net = half_deaf(encrypt, 290, |_| true);
        assert!(net.sides[0].app.gone.is_empty(), "too early");
        let net = half_deaf(encrypt, 320, |_| true);
        assert_eq!(net.sides[0].app.gone, [Gone::Blocked]);
        assert_eq!(net.sides[0].app.sent, [(1, false)]);
        // Who hears nothing knows nothing of it.
        assert!(net.sides[1].app.gone.is_empty());
    }
}

/// A burst of loss, then a debugger.
#[test]
fn a_peer_that_stands_still_or_acknowledges_at_last_is_not_given_up() {
    let net = half_deaf(false, 1200, |tenth| tenth < 50);
    assert!(net.sides[0].app.gone.is_empty());
    // It hears again after 25 s.
    let mut net = half_deaf(false, 250, |_| true);
    for _ in 0..100 {
        net.settle();
        net.advance(Duration::from_millis(100));
    }
    assert_eq!(net.sides[0].app.sent, [(1, true)]);
    // What was acknowledged once is not blocked by a later loss.
    net.send(0, 3, 8).unwrap();
    net.send(1, 4, 8).unwrap();
    for _ in 0..400 {
        let heard = net.outgoing(1);
        net.deliver(0, &heard);
        net.outgoing(0);
        net.advance(Duration::from_millis(100));
    }
    assert!(net.sides[0].app.gone.is_empty());
}
