//! Whole links: in one process, between threads that block, and between
//! processes that are killed.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wiglaf_link::Lane;
use wiglaf_link::near::{Head, NearId, NearSink, Payload};

use super::*;

type Frames = Vec<(SocketAddrV4, Vec<u8>)>;

/// Epochs that no other test of this process, and no other process, uses.
fn fresh_epoch() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    (u64::from(std::process::id()) << 32) | NEXT.fetch_add(1, Ordering::Relaxed)
}

fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(FOLDER).expect("shared memory")
}

fn open(folder: &tempfile::TempDir, port: u16) -> ShmLink {
    ShmLink::open_in(folder.path(), at(port), fresh_epoch()).expect("shared memory")
}

fn acquaint(a: &mut ShmLink, b: &mut ShmLink) {
    a.add_peer(b.local, b.epoch);
    b.add_peer(a.local, a.epoch);
    assert!(a.reaches(b.local) && b.reaches(a.local));
}

fn send(from: &mut ShmLink, to: SocketAddrV4, segment_len: usize, bytes: &[u8]) -> Sent {
    let train = Train { to, lane: Lane::Bulk, segment_len, bytes };
    from.send(&train).expect("the link works")
}

fn receive(link: &mut ShmLink) -> Frames {
    let mut got = Frames::new();
    while link.recv(&mut |from, bytes| got.push((from, bytes.to_vec()))).expect("works") > 0 {}
    got
}

#[test]
fn carries_trains_both_ways() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    let limits = a.limits();
    for (segment_len, len) in [
        (8, 8),
        (8, 0),
        (100, 731),
        (limits.frame_len_max, limits.frame_len_max * limits.bulk_train_max),
        (limits.frame_len_max, limits.frame_len_max * limits.bulk_train_max - 1),
    ] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
        assert_eq!(send(&mut a, b.local, segment_len, &bytes), Sent::All);
        let mut expected: Frames =
            bytes.chunks(segment_len).map(|segment| (a.local, segment.to_vec())).collect();
        if len == 0 {
            expected.push((a.local, Vec::new()));
        }
        assert_eq!(receive(&mut b), expected);
        assert_eq!(send(&mut b, a.local, segment_len, &bytes), Sent::All);
        assert_eq!(receive(&mut a).len(), expected.len());
    }
}

#[test]
fn every_sender_has_its_own_room() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    let mut senders: Vec<ShmLink> = (2..6).map(|port| open(&folder, port)).collect();
    for sender in &mut senders {
        acquaint(sender, &mut receiver);
        while send(sender, receiver.local, 10_000, &[7; 10_000]) == Sent::All {}
    }
    let mut from: Vec<u16> = receive(&mut receiver).iter().map(|(from, _)| from.port()).collect();
    let total = from.len();
    from.dedup();
    assert!(from.len() > senders.len(), "bursts take turns");
    assert_eq!(total % senders.len(), 0);
    assert_eq!(send(&mut senders[0], receiver.local, 1, &[1]), Sent::All);
}

#[test]
fn other_addresses_and_unknown_epochs_are_not_reached() {
    let folder = folder();
    let (mut a, b) = (open(&folder, 1), open(&folder, 2));
    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 2);
    a.add_peer(elsewhere, b.epoch);
    a.add_peer(b.local, fresh_epoch());
    a.add_peer(b.local, 0);
    assert!(!a.reaches(elsewhere) && !a.reaches(b.local));
    assert_eq!(send(&mut a, elsewhere, 1, &[1]), Sent::All, "lost, not failed");
    ShmLink::open_in(folder.path(), at(3), 0).expect_err("epoch 0");
}

#[test]
fn a_stale_name_cuts_off_nobody_who_lives() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    a.add_peer(b.local, fresh_epoch());
    assert!(a.reaches(b.local));
    assert_eq!(send(&mut a, b.local, 8, &[1; 8]), Sent::All);
    assert_eq!(receive(&mut b), [(a.local, vec![1; 8])]);
    // Who has died there is parted from.
    let gone = b.local;
    drop(b);
    a.add_peer(gone, fresh_epoch());
    assert!(!a.reaches(gone));
}

#[test]
fn whoever_listens_there_is_still_there() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    a.add_peer(b.local, 0);
    assert!(a.reaches(b.local));
    assert_eq!(send(&mut a, b.local, 1, &[1]), Sent::All);
    assert_eq!(receive(&mut b), [(a.local, vec![1])]);
}

#[test]
fn trains_beyond_the_limits_are_errors() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    for (segment_len, len) in [(FRAME_LEN_MAX + 1, FRAME_LEN_MAX + 1), (1, TRAIN_MAX + 1)] {
        let train = Train { to: b.local, lane: Lane::Latency, segment_len, bytes: &vec![0; len] };
        a.send(&train).expect_err("too long");
    }
}

#[test]
fn a_stranger_can_be_answered() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    a.add_peer(b.local, b.epoch);
    assert_eq!(send(&mut a, b.local, 5, b"hello"), Sent::All);
    assert!(!b.reaches(a.local));
    assert_eq!(receive(&mut b), [(a.local, b"hello".to_vec())]);
    assert!(b.reaches(a.local));
    assert_eq!(send(&mut b, a.local, 5, b"again"), Sent::All);
    assert_eq!(receive(&mut a), [(b.local, b"again".to_vec())]);
}

#[test]
fn last_words_of_the_old_incarnation_do_not_hide_the_new() {
    let folder = folder();
    let (mut a, mut old) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut old);
    assert_eq!(send(&mut old, a.local, 3, b"old"), Sent::All);
    drop(old);
    let mut new = open(&folder, 2);
    acquaint(&mut a, &mut new);
    assert_eq!(receive(&mut a), [(at(2), b"old".to_vec())]);
    assert_eq!(send(&mut a, at(2), 3, b"new"), Sent::All);
    assert_eq!(receive(&mut new), [(at(1), b"new".to_vec())]);
}

#[test]
fn a_new_incarnation_replaces_the_old() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    assert_eq!(send(&mut a, b.local, 1, &[1]), Sent::All);
    drop(b);
    let mut b = open(&folder, 2);
    acquaint(&mut a, &mut b);
    assert_eq!(send(&mut a, b.local, 1, &[2]), Sent::All);
    assert_eq!(receive(&mut b), [(a.local, vec![2])]);
}

#[derive(Default)]
struct Joined(Vec<(NearId, u64)>);

impl NearSink for Joined {
    fn joined(&mut self, peer: NearId, _: SocketAddrV4, epoch: u64) {
        self.0.push((peer, epoch));
    }

    fn record(&mut self, _: NearId, _: &Head, _: &dyn Payload) {}
}

/// Opens a near lane; answers the numbers by which the receiver and its peer know each other.
fn join(from: &mut ShmLink, to: &mut ShmLink) -> (NearId, NearId) {
    to.near().expect("a lane");
    acquaint(from, to);
    let there = from.near().expect("a lane").join(to.local, to.epoch).expect("it takes records");
    let mut joined = Joined::default();
    assert!(to.near().expect("a lane").poll(&mut joined) > 0, "it has introduced itself");
    let [(here, epoch)] = joined.0[..] else { panic!("{:?}", joined.0) };
    assert_eq!(epoch, from.epoch);
    (here, there)
}

#[test]
fn the_limit_of_who_has_left_is_not_told_to_who_has_its_slot() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    let mut first = open(&folder, 2);
    let (left, _) = join(&mut first, &mut receiver);
    drop(first);
    let mut second = open(&folder, 3);
    let (stayed, there) = join(&mut second, &mut receiver);
    assert_eq!(receiver.slots(), 1, "one slot served them both");
    let told = receiver.near().expect("a lane");
    told.tell_limit(stayed, 7);
    told.tell_limit(left, 9);
    assert_eq!(second.near().expect("a lane").limit_told(there), Some(7));
}

/// What is told of a death that happens meanwhile.
fn death_found(link: &mut ShmLink) -> Unreachable {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        receive(link);
        if let Some(found) = link.take_unreachable() {
            return found;
        }
        assert!(Instant::now() < give_up, "the death was not found");
    }
}

#[test]
fn the_death_of_who_was_there_before_is_told() {
    let folder = folder();
    let (mut a, mut old) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut old);
    let gone = old.epoch;
    drop(old);
    let mut new = open(&folder, 2);
    acquaint(&mut a, &mut new);
    let found = death_found(&mut a);
    assert_eq!((found.at, found.epoch), (at(2), gone));
    assert_eq!(a.take_unreachable(), None);
    assert!(a.reaches(at(2)));
}

#[test]
fn slots_are_given_back() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    for round in 0..3 * SLOTS {
        let mut sender = open(&folder, 2);
        acquaint(&mut sender, &mut receiver);
        assert_eq!(send(&mut sender, receiver.local, 4, &[round as u8; 4]), Sent::All);
        assert_eq!(receive(&mut receiver), [(sender.local, vec![round as u8; 4])]);
    }
    assert_eq!(receiver.slots(), 1, "one slot served them all");
}

#[test]
fn one_sender_too_many_is_not_reached_any_more() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    let mut senders: Vec<ShmLink> = (0..=SLOTS as u16).map(|i| open(&folder, 2 + i)).collect();
    for sender in &mut senders {
        sender.add_peer(receiver.local, receiver.epoch);
        assert_eq!(send(sender, receiver.local, 1, &[9]), Sent::All);
    }
    let unreached = senders.iter().filter(|sender| !sender.reaches(receiver.local)).count();
    assert_eq!((receive(&mut receiver).len(), unreached), (SLOTS, 1));
    // A slot that is given back is there for the one that went without.
    senders.remove(0);
    let last = senders.last_mut().expect("it went without");
    last.add_peer(receiver.local, receiver.epoch);
    assert!(last.reaches(receiver.local));
}

#[test]
fn a_ring_of_nonsense_affects_its_sender_only() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    let (mut bad, mut good) = (open(&folder, 2), open(&folder, 3));
    for sender in [&mut bad, &mut good] {
        acquaint(sender, &mut receiver);
        assert_eq!(send(sender, receiver.local, 1, &[1]), Sent::All);
    }
    assert_eq!(receive(&mut receiver).len(), 2);
    bad.peers[0]
        .claim
        .segment
        .map
        .word(slot(0) + layout::AT_TAIL)
        .store(u64::MAX, Ordering::Release);
    assert_eq!(send(&mut good, receiver.local, 1, &[2]), Sent::All);
    assert_eq!(receive(&mut receiver), [(good.local, vec![2])]);
    assert_eq!(receiver.broken(), 1);
    assert!(!receiver.arm(true), "a broken ring keeps nobody awake");
}

#[test]
fn files_that_are_no_segments_are_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let (mut a, b) = (open(&folder, 1), open(&folder, 2));
    let path = |epoch: u64| {
        folder.path().join(format!("wiglaf-{}-{epoch:016x}", rustix::process::geteuid().as_raw()))
    };
    let (short, empty, open_to_all, link) =
        (fresh_epoch(), fresh_epoch(), fresh_epoch(), fresh_epoch());
    std::fs::write(path(short), b"short").expect("written");
    std::fs::write(path(empty), b"").expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(path(empty)).expect("there");
    file.set_len(layout::SEGMENT_LEN as u64).expect("grown");
    std::fs::set_permissions(path(empty), PermissionsExt::from_mode(0o600)).expect("set");
    std::fs::copy(path(b.epoch), path(open_to_all)).expect("copied");
    std::fs::set_permissions(path(open_to_all), PermissionsExt::from_mode(0o666)).expect("set");
    symlink(path(b.epoch), path(link)).expect("linked");
    for epoch in [short, empty, open_to_all, link] {
        a.add_peer(b.local, epoch);
        assert!(!a.reaches(b.local));
    }
    a.add_peer(b.local, b.epoch);
    assert!(a.reaches(b.local));
}

/// Blocks until the link has something, as an endpoint does.
fn block(link: &mut ShmLink) {
    if !link.arm(true) {
        let fd = link.wait_fds()[0];
        // SAFETY: the descriptor belongs to `link`, which outlives the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
        assert!(ready.expect("poll works") > 0, "a wake-up was lost");
    }
    link.arm(false);
}

#[test]
fn no_wake_up_is_lost() {
    const ROUNDS: u32 = 20_000;
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    let (a_at, b_at) = (a.local, b.local);
    let bounce = |mut link: ShmLink, to: SocketAddrV4, begins: bool| {
        if begins {
            assert_eq!(send(&mut link, to, 4, &0u32.to_ne_bytes()), Sent::All);
        }
        loop {
            let frames = receive(&mut link);
            if frames.is_empty() {
                block(&mut link);
            }
            for (_, bytes) in frames {
                let round = u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
                if round > ROUNDS {
                    return link;
                }
                assert_eq!(send(&mut link, to, 4, &(round + 1).to_ne_bytes()), Sent::All);
                if round == ROUNDS {
                    return link;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| bounce(a, b_at, true));
        let two = scope.spawn(|| bounce(b, a_at, false));
        drop((one.join().expect("no panic"), two.join().expect("no panic")));
    });
}

/// A process that runs [`child_process`]: it echoes until it is killed.
fn spawn(folder: &tempfile::TempDir, peer: &ShmLink) -> (Child, u64) {
    let epoch = fresh_epoch();
    let mut child = Command::new(std::env::current_exe().expect("the test binary"))
        .args(["--exact", "tests::child_process", "--nocapture"])
        .env("WIGLAF_SHM_TEST", format!("{} {epoch} {}", folder.path().display(), peer.epoch))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("ready"))));
    (child, epoch)
}

#[test]
fn child_process() {
    let Ok(task) = std::env::var("WIGLAF_SHM_TEST") else { return };
    let mut words = task.split(' ');
    let folder = PathBuf::from(words.next().expect("a folder"));
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("an epoch");
    let (epoch, peer) = (number(), number());
    let mut link = ShmLink::open_in(&folder, at(2), epoch).expect("shared memory");
    link.add_peer(at(1), peer);
    println!("\nready");
    std::io::stdout().flush().expect("piped");
    loop {
        for (from, bytes) in receive(&mut link) {
            assert_eq!(send(&mut link, from, bytes.len(), &bytes), Sent::All);
        }
        block(&mut link);
    }
}

#[test]
fn processes_talk_and_a_killed_one_leaves_nothing_in_the_way() {
    let folder = folder();
    let mut a = open(&folder, 1);
    for round in 0..5u8 {
        let (mut child, epoch) = spawn(&folder, &a);
        a.add_peer(at(2), epoch);
        assert!(a.reaches(at(2)));
        let frame = vec![round; 5000];
        for _ in 0..20 {
            assert_eq!(send(&mut a, at(2), frame.len(), &frame), Sent::All);
            let mut got = receive(&mut a);
            while got.is_empty() {
                block(&mut a);
                got = receive(&mut a);
            }
            assert_eq!(got, [(at(2), frame.clone())]);
        }
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let found = death_found(&mut a);
        assert_eq!(found.at, at(2));
        assert!(!a.reaches(at(2)));
    }
    assert_eq!(a.broken(), 0);
    assert!(a.slots().count_ones() <= 5);
    // The last child's file is still there; the next to open sweeps it.
    let files = || std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(files(), 2);
    drop(open(&folder, 3));
    assert_eq!(files(), 1);
}

#[test]
fn slots_of_the_dead_are_inherited() {
    let folder = folder();
    let mut receiver = open(&folder, 1);
    // Senders that died without giving back: their epochs have no file.
    for index in 0..SLOTS {
        let owner = receiver.own.map.word(layout::owner(index));
        owner.store(fresh_epoch(), Ordering::Release);
    }
    let mut sender = open(&folder, 2);
    acquaint(&mut sender, &mut receiver);
    assert_eq!(send(&mut sender, receiver.local, 2, b"hi"), Sent::All);
    assert_eq!(receive(&mut receiver), [(sender.local, b"hi".to_vec())]);
}

#[test]
fn a_death_is_told_after_the_last_words() {
    let folder = folder();
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    acquaint(&mut a, &mut b);
    assert_eq!(send(&mut b, a.local, 4, b"last"), Sent::All);
    drop(b);
    let give_up = Instant::now() + Duration::from_secs(10);
    while a.reaches(at(2)) {
        assert_eq!(a.take_unreachable(), None, "words are still unread");
        assert!(Instant::now() < give_up, "the death was not found");
    }
    assert_eq!(a.take_unreachable(), None, "words are still unread");
    assert_eq!(receive(&mut a), [(at(2), b"last".to_vec())]);
    assert_eq!(a.take_unreachable().map(|found| found.at), Some(at(2)));
    assert_eq!(a.take_unreachable(), None);
}

/// Runs an ignored test of this program by way of `command`, and says whether it ran.
fn in_child(command: &mut Command, test: &str) -> bool {
    let output = command
        .arg(std::env::current_exe().expect("the test binary"))
        .args(["--exact", test, "--ignored", "--nocapture"])
        .output()
        .expect("the test binary runs");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {}\n{out}\n{err}", output.status);
    out.contains("1 passed")
}

#[test]
fn without_room_in_shared_memory_nobody_is_reached() {
    let may = Command::new("unshare").args(["--mount", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no mount namespaces here");
        return;
    }
    let mut alone = Command::new("unshare");
    assert!(in_child(alone.arg("--mount"), "tests::nobody_is_reached_in_little_memory"));
}

/// Memory for the heads of two segments, but not for a slot: each page that is touched without having
/// been had first ends the process.
#[test]
#[ignore = "mounts: in a namespace of its own only"]
fn nobody_is_reached_in_little_memory() {
    let folder = folder();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k", "none"])
        .arg(folder.path())
        .status();
    assert!(mounted.is_ok_and(|status| status.success()), "mounted");
    let (mut a, mut b) = (open(&folder, 1), open(&folder, 2));
    a.add_peer(b.local, b.epoch);
    b.add_peer(a.local, a.epoch);
    assert!(!a.reaches(b.local) && !b.reaches(a.local));
    drop((a, b));
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "unmounted");
}

#[test]
fn a_limit_of_file_sizes_is_an_error() {
    assert!(in_child(&mut Command::new("env"), "tests::no_segment_is_made_beyond_the_limit"));
}

#[test]
#[ignore = "limits the process: in one of its own only"]
fn no_segment_is_made_beyond_the_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit_to = |bytes: usize| {
        let limit = Rlimit { current: Some(bytes as u64), maximum };
        setrlimit(Resource::Fsize, limit).expect("it is only lowered");
    };
    let folder = folder();
    limit_to(layout::SEGMENT_LEN - 1);
    let refused = ShmLink::open_in(folder.path(), at(1), fresh_epoch()).expect_err("too long");
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::FBIG.raw_os_error()));
    let files = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(files, 0, "nothing is left");
    limit_to(layout::SEGMENT_LEN);
    drop(open(&folder, 1));
}
