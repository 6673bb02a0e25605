//! Groups on the loopback interface: what they compute, also where datagrams are lost.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wiglaf_endpoint::JobKey;
use wiglaf_link_udp::BulkSocket;
use wiglaf_multicast::{Group, Member, Plan, Seal, Waiting};

const KEY: JobKey = JobKey([3; 16]);
const IP: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Another group for each test, and for each process that runs tests.
fn id() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    u64::from(std::process::id()) << 8 | COUNT.fetch_add(1, Ordering::Relaxed)
}

fn bound() -> (BulkSocket, SocketAddrV4) {
    let socket = BulkSocket::open(IP).unwrap();
    let at = SocketAddrV4::new(IP, socket.port());
    (socket, at)
}

/// Members of one group, ready to be moved to threads.
fn members(count: u16, payload_len: usize, lose_one_in: u64) -> Vec<Group> {
    let id = id();
    // A port that nobody has; groups of other processes have other addresses.
    let free = UdpSocket::bind((IP, 0)).unwrap().local_addr().unwrap().port();
    let [.., a, b] = id.to_be_bytes();
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, a, b), free);
    let sockets: Vec<_> = (0..count).map(|_| (bound(), bound())).collect();
    let all: Vec<Member> = sockets
        .iter()
        .zip(1..)
        .map(|(((_, own), (_, repair)), epoch)| Member { own: *own, repair: *repair, epoch })
        .collect();
    let (part_len, batch_max) = Plan::parts(payload_len);
    let join = |((own, _), (repair, _)), rank| {
        let plan = Plan {
            rank,
            members: all.clone(),
            group,
            seal: Seal::new(&KEY, id),
            part_len,
            batch_max,
            waiting: Waiting { polls: Duration::ZERO, never_sleeps: false },
            lose_one_in,
        };
        Group::join(plan, own, repair).unwrap()
    };
    sockets.into_iter().zip(0..).map(|(sockets, rank)| join(sockets, rank)).collect()
}

/// Runs `member` as each of them. None leaves before all are done: who repairs for it would leave as well.
fn run(mut members: Vec<Group>, member: impl Fn(u16, &mut Group) + Sync) -> Vec<Group> {
    let all_done = Barrier::new(members.len());
    std::thread::scope(|scope| {
        for (group, rank) in members.iter_mut().zip(0..) {
            let (all_done, member) = (&all_done, &member);
            scope.spawn(move || {
                member(rank, group);
                all_done.wait();
            });
        }
    });
    members
}

fn pattern(operation: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + operation * 7 + i / 251) as u8).collect()
}

/// Everything, with each member as the root of broadcasts in turn, and others far ahead of a slow one.
fn exercise(rank: u16, group: &mut Group, size: u16) {
    let progress = &mut || {};
    assert!(group.trial(Duration::from_secs(20)).unwrap() || rank != 0);
    for (operation, len) in
        [0, 1, 1400, 1417, 16 << 10, 17 << 10, 100_000, 700_001].into_iter().enumerate()
    {
        let root = operation as u16 % size;
        let sent = pattern(operation, len);
        let mut bytes = if rank == root { sent.clone() } else { vec![0; len] };
        group.broadcast(&mut bytes, root, progress).unwrap();
        assert!(bytes == sent, "broadcast {operation} of {len} bytes");
    }
    group.barrier(progress).unwrap();
    // Many short ones without a pause: one member sleeps meanwhile.
    for operation in 0..400 {
        if rank == size - 1 && operation == 10 {
            std::thread::sleep(Duration::from_millis(30));
        }
        let sent = pattern(operation, 1000);
        let mut bytes = if rank == 0 { sent.clone() } else { vec![0; 1000] };
        group.broadcast(&mut bytes, 0, progress).unwrap();
        assert!(bytes == sent, "broadcast {operation} of many");
    }
    for operation in 0..50_u64 {
        let own = (u64::from(rank) + operation).to_le_bytes();
        let mut all = vec![0; 8 * usize::from(size)];
        let combine = &mut |said: &[Vec<u8>], into: &mut [u8]| into.copy_from_slice(&said.concat());
        group.combine(&own, &mut all, combine, progress).unwrap();
        let wanted: Vec<u8> =
            (0..u64::from(size)).flat_map(|rank| (rank + operation).to_le_bytes()).collect();
        assert_eq!(all, wanted);
        group.barrier(progress).unwrap();
    }
}

#[test]
fn all_get_what_the_root_sends() {
    for size in [2, 5] {
        let members = run(members(size, 1472, 0), |rank, group| exercise(rank, group, size));
        for group in &members {
            assert_eq!(group.seen().refused, [0; 6], "{:?}", group.seen());
        }
    }
}

#[test]
fn lost_datagrams_are_sent_again() {
    let members = run(members(4, 1472, 10), |rank, group| {
        group.barrier(&mut || {}).unwrap();
        exercise(rank, group, 4);
    });
    let total = |count: fn(&Group) -> u64| members.iter().map(count).sum::<u64>();
    assert!(total(|group| group.seen().asked) > 0, "nothing was lost");
    assert!(total(|group| group.seen().repaired) > 0, "nothing was sent again");
}

/// One that loses the whole first window of a long message has nothing to tell how far it is.
#[test]
fn a_whole_window_that_is_lost_comes_again() {
    run(members(3, 1472, 2), |rank, group| {
        for (operation, len) in [17 << 10, 20_000, 17 << 10, 40_000].into_iter().enumerate() {
            let root = operation as u16 % 3;
            let sent = pattern(operation, len);
            let mut bytes = if rank == root { sent.clone() } else { vec![0; len] };
            group.broadcast(&mut bytes, root, &mut || {}).unwrap();
            assert!(bytes == sent, "broadcast {operation}");
        }
    });
}

/// Nobody hears what is sent to all: the trial says so, and nothing waits for ever.
#[test]
fn a_network_without_multicast_is_found_out() {
    run(members(3, 1472, 1), |rank, group| {
        assert_eq!(group.trial(Duration::from_millis(50)).unwrap(), rank == 0);
    });
}

/// What is sent from outside is refused, counted, and changes nothing.
#[test]
fn foreign_datagrams_change_nothing() {
    let members = members(2, 1472, 0);
    let noise = UdpSocket::bind((IP, 0)).unwrap();
    let to = members[0].address();
    for len in [0, 1, 47, 48, 56, 1400] {
        noise.send_to(&vec![0x57; len], to).unwrap();
    }
    let members = run(members, |_, group| group.barrier(&mut || {}).unwrap());
    assert_eq!(members[0].seen().refused, [6, 0, 0, 0, 0, 0]);
}
