//! The calls, one by one, on a server that is a process of its own.

mod common;

use common::{Place, SHM};
use tempfile::TempDir;
use wiglaf_files::{Reason, SeekFrom};

const RW: i32 = libc::O_RDWR | libc::O_CREAT;

#[test]
fn what_is_written_is_read_again() {
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    for len in [0, 1, 100, 4096, 28 * 1024, 28 * 1024 + 1, 256 * 1024, 1 << 20, (5 << 20) + 77] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251 + len) as u8).collect();
        assert_eq!(file.write_at(&bytes, 3).unwrap(), len, "{len}");
        let mut back = vec![0; len];
        assert_eq!(file.read_at(&mut back, 3).unwrap(), len, "{len}");
        assert!(back == bytes, "{len} bytes came back otherwise");
        let on_disk = std::fs::read(place.path("a")).unwrap();
        assert!(len == 0 || on_disk[3..3 + len] == bytes, "{len} bytes lie there otherwise");
    }
    file.close().unwrap();
}

/// Where 32 bits of an offset do not suffice; nothing lies before, so it takes hardly any disk.
#[test]
fn content_beyond_4_gib_is_in_its_place() {
    use std::os::unix::fs::FileExt;
    let place = Place::new();
    for (name, buffered) in [("a", 0), ("b", 1 << 20)] {
        let file = place.node.open(name, RW, 0o644).unwrap();
        file.set_read_ahead(buffered).unwrap();
        file.set_write_behind(buffered).unwrap();
        // Over the edge, and beyond: within a request, and in several.
        for (at, len) in
            [((1 << 32) - 50, 100), ((1 << 32) - 999, 1 << 20), ((5 << 32) + 77, 700_000)]
        {
            let bytes: Vec<u8> =
                (0..3 * len).map(|i| 1 + ((i + i / 251 + len) % 255) as u8).collect();
            let mut back = vec![0; len];
            file.seek(SeekFrom::Start(at)).unwrap();
            for piece in bytes.chunks(len) {
                assert_eq!(file.write(piece).unwrap(), len);
            }
            let end = at + 3 * len as u64;
            assert_eq!(file.seek(SeekFrom::Current(0)).unwrap(), end);
            assert_eq!(file.attributes().unwrap().size, end);
            assert_eq!(file.seek(SeekFrom::End(-3 * len as i64)).unwrap(), at);
            for piece in bytes.chunks(len) {
                assert_eq!(file.read(&mut back).unwrap(), len);
                assert!(back == piece, "{len} bytes from {at} on came back otherwise");
            }
            let (middle, reversed) =
                (at + len as u64, bytes.iter().rev().copied().collect::<Vec<_>>());
            assert_eq!(file.write_at(&reversed[..len], middle).unwrap(), len);
            assert_eq!(file.read_at(&mut back, middle).unwrap(), len);
            assert!(back == reversed[..len], "{len} bytes at {middle} came back otherwise");
            let read = file.start_read(len, middle).unwrap().wait().unwrap();
            assert!(read == back, "{len} bytes at {middle} came otherwise later");
            let on_disk = std::fs::File::open(place.path(name)).unwrap();
            let mut there = vec![0; 3 * len];
            on_disk.read_exact_at(&mut there, at).unwrap();
            let wanted = [&bytes[..len], &reversed[..len], &bytes[2 * len..]].concat();
            assert!(there == wanted, "{len} bytes lie at {at} otherwise");
            // Where they would be that had lost their upper bits.
            on_disk.read_exact_at(&mut there, 0).unwrap();
            assert!(there.iter().all(|byte| *byte == 0), "bytes for {at} lie at the beginning");
        }
    }
}

#[test]
fn the_position_moves_as_with_local_files() {
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    assert_eq!(file.write(b"0123456789").unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::Start(4)).unwrap(), 4);
    let mut four = [0; 4];
    assert_eq!(file.read(&mut four).unwrap(), 4);
    assert_eq!(&four, b"4567");
    assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 9);
    assert_eq!(file.read(&mut four).unwrap(), 1);
    assert_eq!(file.read(&mut four).unwrap(), 0);
    assert_eq!(file.seek(SeekFrom::Current(-11)).unwrap_err().errno(), libc::EINVAL);
    let appended = place.node.open("a", libc::O_WRONLY | libc::O_APPEND, 0).unwrap();
    assert_eq!(appended.write(b"ab").unwrap(), 2);
    assert_eq!(appended.seek(SeekFrom::Current(0)).unwrap(), 12);
}

#[test]
fn writing_nothing_moves_no_position() {
    let place = Place::new();
    std::fs::write(place.path("a"), "0123456789").unwrap();
    for flags in [libc::O_WRONLY, libc::O_WRONLY | libc::O_APPEND] {
        let file = place.node.open("a", flags, 0).unwrap();
        file.seek(SeekFrom::Start(3)).unwrap();
        assert_eq!(file.write(b"").unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::Current(0)).unwrap(), 3, "{flags:o}");
    }
    let read = place.node.open("a", libc::O_RDONLY | libc::O_APPEND, 0).unwrap();
    assert_eq!(read.write(b"").unwrap_err().errno(), libc::EBADF);
}

#[test]
fn what_is_there_is_not_made_again() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let place = Place::new();
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::os::unix::fs::symlink("/no/such/file", place.path("dangling")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.path("link")).unwrap();
    for name in ["pipe", "dangling", "link"] {
        let error = place.node.open(name, RW | libc::O_EXCL, 0o644).unwrap_err();
        assert_eq!(error.errno(), libc::EEXIST, "{name}");
        let error = place.node.open(name, RW, 0o644).unwrap_err();
        assert_eq!(error.errno(), libc::EACCES, "{name}");
    }
    // The exported folder is there, too, and not a client's to move.
    let root = common::base();
    let errno = |outcome: wiglaf_files::Result<()>| outcome.unwrap_err().errno();
    assert_eq!(errno(place.node.make_dir(root, 0o755)), libc::EEXIST);
    assert_eq!(errno(place.node.make_link("x", root)), libc::EEXIST);
    assert_eq!(errno(place.node.hard_link("pipe", root)), libc::EEXIST);
    assert_eq!(errno(place.node.remove_dir(root)), libc::EBUSY);
    assert_eq!(errno(place.node.rename(root, "x")), libc::EBUSY);
}

#[test]
fn what_the_server_does_not_let_through_is_refused_with_a_reason() {
    let place = Place::new();
    std::os::unix::fs::symlink("/etc/passwd", place.path("link")).unwrap();
    std::os::unix::fs::symlink("../../../../../../etc/passwd", place.path("up")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let refused = [
        ("link", Reason::Escape),
        ("up", Reason::Escape),
        ("/etc/passwd", Reason::NotExported),
        ("../../../../../../../../etc/passwd", Reason::Escape),
        ("pipe", Reason::SpecialFile),
    ];
    for (path, reason) in refused {
        let error = place.node.open(path, libc::O_RDONLY, 0).unwrap_err();
        assert_eq!((error.errno(), error.reason()), (libc::EACCES, reason), "{path}");
        assert!(error.to_string().len() > 30, "{error}");
    }
    let counters = place.node.counters().unwrap().unwrap();
    assert_eq!(counters.refused[Reason::Escape as usize], 3);
    assert_eq!(counters.refused[Reason::NotExported as usize], 1);
    assert_eq!(counters.refused[Reason::SpecialFile as usize], 1);
    let error = place.node.open("x", libc::O_RDONLY | libc::O_DIRECT, 0).unwrap_err();
    assert_eq!(error.reason(), Reason::Flag);
}

#[test]
fn a_file_that_was_deleted_while_open_stays_readable() {
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    file.write(b"still here").unwrap();
    place.node.unlink("a").unwrap();
    let mut back = [0; 10];
    assert_eq!(file.read_at(&mut back, 0).unwrap(), 10);
    assert_eq!(&back, b"still here");
    assert_eq!(file.attributes().unwrap().links, 0);
    assert_eq!(place.node.attributes("a", true).unwrap_err().errno(), libc::ENOENT);
}

#[test]
fn two_writers_see_each_others_bytes_at_once() {
    let place = Place::new();
    let other = wiglaf_files::Files::new().attach("other").unwrap();
    let path = place.path("shared");
    let a = place.node.open(&path, RW, 0o644).unwrap();
    let b = other.open(&path, RW, 0o644).unwrap();
    for round in 0..100u64 {
        let (writer, reader) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        writer.write_at(&round.to_le_bytes(), 0).unwrap();
        let mut back = [0; 8];
        reader.read_at(&mut back, 0).unwrap();
        assert_eq!(u64::from_le_bytes(back), round);
    }
}

#[test]
fn names_are_made_listed_renamed_and_removed() {
    let place = Place::new();
    place.node.make_dir("d", 0o755).unwrap();
    place.node.enter("d").unwrap();
    let wanted: Vec<String> =
        (0..700).map(|i| format!("a-name-that-takes-some-room-{i}")).collect();
    for name in &wanted {
        place.node.open(name, RW, 0o600).unwrap().close().unwrap();
    }
    let mut folder = place.node.list(".").unwrap();
    for _ in 0..2 {
        let mut found = Vec::new();
        while let Some(entry) = folder.next_entry().unwrap() {
            found.push(String::from_utf8(entry.name).unwrap());
        }
        found.retain(|name| name != "." && name != "..");
        found.sort();
        let mut sorted = wanted.clone();
        sorted.sort();
        assert_eq!(found, sorted);
        folder.rewind();
    }
    place.node.rename(&wanted[0], "new").unwrap();
    assert!(place.path("d/new").exists() && !place.path("d").join(&wanted[0]).exists());
    place.node.enter("..").unwrap();
    assert_eq!(place.node.enter("d/new").unwrap_err().errno(), libc::ENOTDIR);
    assert_eq!(place.node.enter("no").unwrap_err().errno(), libc::ENOENT);
    assert_eq!(place.node.remove_dir(place.path("d")).unwrap_err().errno(), libc::ENOTEMPTY);
}

#[test]
fn reads_go_on_beside_each_other() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..3 << 20).map(|i| (i / 5) as u8).collect();
    std::fs::write(place.path("a"), &bytes).unwrap();
    let file = place.node.open("a", libc::O_RDONLY, 0).unwrap();
    let requests: Vec<_> =
        (0..6).map(|i| file.start_read(1 << 20, i * (1 << 19)).unwrap()).collect();
    for (i, request) in requests.into_iter().enumerate() {
        let start = i << 19;
        let end = (start + (1 << 20)).min(bytes.len());
        assert!(request.wait().unwrap() == bytes[start..end], "request {i}");
    }
}

#[test]
fn read_ahead_and_write_behind_change_nothing_but_the_time() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..(3 << 20) + 1234).map(|i| (i / 3) as u8).collect();
    let file = place.node.open("a", RW, 0o644).unwrap();
    file.set_write_behind(1 << 20).unwrap();
    for piece in bytes.chunks(100_000) {
        assert_eq!(file.write(piece).unwrap(), piece.len());
    }
    file.sync(false).unwrap();
    assert!(std::fs::read(place.path("a")).unwrap() == bytes);
    file.seek(SeekFrom::Start(0)).unwrap();
    file.set_read_ahead(1 << 20).unwrap();
    let mut back = Vec::new();
    let mut piece = vec![0; 77_777];
    loop {
        let got = file.read(&mut piece).unwrap();
        if got == 0 {
            break;
        }
        back.extend_from_slice(&piece[..got]);
    }
    assert!(back == bytes, "what was read ahead is not what is there");
    // A file that grows is read on.
    place.node.open("a", libc::O_WRONLY | libc::O_APPEND, 0).unwrap().write(b"more").unwrap();
    assert_eq!(file.read(&mut piece).unwrap(), 4);
}

#[test]
fn a_later_write_behind_wins() {
    let place = Place::new();
    for round in 0..20 {
        let file = place.node.open(format!("f{round}"), RW, 0o644).unwrap();
        file.set_write_behind(4 << 20).unwrap();
        assert_eq!(file.write(&[1; 256 << 10]).unwrap(), 256 << 10);
        file.seek(SeekFrom::Start(0)).unwrap();
        assert_eq!(file.write(&[2; 100]).unwrap(), 100);
        file.sync(false).unwrap();
        let there = std::fs::read(place.path(&format!("f{round}"))).unwrap();
        assert!(there[..100] == [2; 100], "the earlier write came last");
        assert!(there[100..] == [1; (256 << 10) - 100], "the rest is not the first write's");
    }
}

#[test]
fn a_short_file_is_not_read_ahead_and_a_long_one_is() {
    let place = Place::new();
    let served = || place.node.counters().unwrap().expect("it is remote").served;
    std::fs::write(place.path("short"), [7; 1000]).unwrap();
    let file = place.node.open("short", libc::O_RDONLY, 0).unwrap();
    file.set_read_ahead(2 << 20).unwrap();
    let before = served();
    let mut piece = vec![0; 4096];
    assert_eq!(file.read(&mut piece).unwrap(), 1000);
    assert_eq!(file.read(&mut piece).unwrap(), 0);
    // Of these the first inquiry is one.
    assert_eq!(served() - before, 3, "requests for a short file");

    let bytes: Vec<u8> = (0..4 << 20).map(|i| (i / 5) as u8).collect();
    std::fs::write(place.path("long"), &bytes).unwrap();
    let file = place.node.open("long", libc::O_RDONLY, 0).unwrap();
    file.set_read_ahead(2 << 20).unwrap();
    let before = served();
    for part in bytes.chunks(4096) {
        assert_eq!(file.read(&mut piece).unwrap(), part.len());
        assert!(piece == part, "what was read ahead is not what is there");
    }
    let requests = served() - before;
    assert!(requests < 40, "{requests} requests for 1024 reads in order");
}

/// Memory with a hole in it, as a file of this process: reads of the hole fail, and those behind do not.
#[test]
fn nothing_is_read_past_an_error() {
    const PART: usize = 256 << 10;
    let place = Place::new();
    let Some(memory) = Mounted::bind(&format!("/proc/{}/mem", std::process::id()), place.path("m"))
    else {
        return;
    };
    let (read, private) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::PRIVATE);
    // SAFETY: new memory, which nobody else uses.
    let start = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), 8 * PART, read, private).unwrap()
    };
    // SAFETY: the fourth part of it.
    unsafe { rustix::mm::munmap(start.byte_add(3 * PART), PART).unwrap() };
    let file = place.node.open(&memory.0, libc::O_RDONLY, 0).unwrap();
    file.set_read_ahead(4 << 20).unwrap();
    file.seek(SeekFrom::Start(start as u64)).unwrap();
    let mut piece = vec![9; PART / 2 * 3];
    assert_eq!(file.read(&mut piece).unwrap(), piece.len());
    // The next one ends at the hole, and the one after it fails.
    assert_eq!(file.read(&mut piece).unwrap(), piece.len());
    assert_eq!(file.read(&mut piece).unwrap_err().errno(), libc::EIO);
    file.seek(SeekFrom::Start(start as u64)).unwrap();
    let mut piece = vec![9; PART];
    assert_eq!(file.read(&mut piece).unwrap(), PART);
    let mut piece = vec![9; 3 * PART];
    assert_eq!(file.read(&mut piece).unwrap(), 2 * PART);
    let outcome = file.read(&mut piece);
    assert_eq!(outcome.map_err(|error| error.errno()), Err(libc::EIO));
}

#[test]
fn long_names_fit_short_frames() {
    let Some(pair) = wiglaf_testnet::Pair::or_skip(1500) else { return };
    common::base();
    pair.a.ip(&["link", "set", "lo", "mtu", "1500"]).unwrap();
    pair.a.run(|| {
        let place = Place::new();
        let nested = |byte: &str, len: usize| vec![byte.repeat(199); len / 200].join("/");
        let (long, one, other) = (nested("d", 2000), nested("a", 1000), nested("b", 1000));
        for path in [&long, &one, &other] {
            let _ = std::fs::create_dir_all(place.path(path));
        }
        assert!(place.node.attributes(&long, true).unwrap().links > 1);
        let inside = |folder: &str, name: &str| format!("{folder}/{name}");
        place.node.open(inside(&long, "f"), RW, 0o644).unwrap().close().unwrap();
        place.node.open(inside(&one, "f"), RW, 0o644).unwrap().close().unwrap();
        place.node.rename(inside(&one, "f"), inside(&other, "g")).unwrap();
        assert!(place.path(&inside(&other, "g")).exists());
        let beyond = nested("e", 4200);
        assert_eq!(place.node.unlink(&beyond).unwrap_err().errno(), libc::ENAMETOOLONG);
    });
}

#[test]
fn many_threads_share_a_node() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let node = &place.node;
            scope.spawn(move || {
                let file = node.open(format!("t{thread}"), RW, 0o644).unwrap();
                let bytes = vec![thread; 40_000];
                for round in 0..50 {
                    file.write_at(&bytes, round * 40_000).unwrap();
                    let mut back = vec![9; 40_000];
                    file.read_at(&mut back, round * 40_000).unwrap();
                    assert!(back == bytes, "thread {thread}, round {round}");
                }
            });
        }
    });
}

/// Something mounted for as long as it lives.
struct Mounted(std::path::PathBuf);

impl Mounted {
    /// A file system of a mebibyte.
    fn small(at: std::path::PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        let mounted = rustix::mount::mount("tmpfs", &at, "tmpfs", flags, Some(c"size=1m"));
        Self::if_done(at, mounted)
    }

    /// A file under another name.
    fn bind(file: &str, at: std::path::PathBuf) -> Option<Self> {
        std::fs::write(&at, "").unwrap();
        let mounted = rustix::mount::mount_bind(file, &at);
        Self::if_done(at, mounted)
    }

    fn if_done(at: std::path::PathBuf, mounted: rustix::io::Result<()>) -> Option<Self> {
        if let Err(why) = mounted {
            println!("skipped: nothing can be mounted at {} ({why})", at.display());
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_takes_what_it_can_and_says_so() {
    let place = Place::new();
    let Some(disk) = Mounted::small(place.path("disk")) else { return };
    let file = place.node.open("disk/f", RW, 0o644).unwrap();
    let bytes = vec![5; 700_000];
    assert_eq!(file.write(&bytes).unwrap(), 700_000);
    // What did not fit is not said to be written, and what is said is there.
    let rest = file.write(&bytes).unwrap();
    assert!(rest < 700_000, "{rest} bytes were taken by a full disk");
    let position = file.seek(SeekFrom::Current(0)).unwrap();
    assert_eq!(position, 700_000 + rest as u64);
    assert_eq!(file.write(b"more").unwrap_err().errno(), libc::ENOSPC);
    let on_disk = std::fs::read(disk.0.join("f")).unwrap();
    assert!(
        on_disk.len() as u64 >= position && on_disk[..position as usize].iter().all(|b| *b == 5)
    );
    // Behind, the error comes with the next call that asks for it.
    file.truncate(700_000).unwrap();
    file.seek(SeekFrom::Start(700_000)).unwrap();
    file.set_write_behind(4 << 20).unwrap();
    let _ = file.write(&bytes);
    assert_eq!(file.sync(false).unwrap_err().errno(), libc::ENOSPC);
}

#[test]
fn two_copies_to_one_target_do_not_meet() {
    use wiglaf_files::copy::{PART, Place as Side, Stage, copy};
    let place = Place::new();
    let (one, other) = (vec![1; 3 << 20], vec![2; 2 << 20]);
    std::fs::write(place.path("one"), &one).unwrap();
    std::fs::write(place.path("other"), &other).unwrap();
    let part = format!("to{PART}");
    std::fs::write(place.path(&part), &one[..1 << 20]).unwrap();
    let side = |name: &str| Side { node: place.node.clone(), path: name.into() };
    let mut second = None;
    let first = copy(&side("one"), &side("to"), true, &mut |stage, _, _| {
        if stage == Stage::Comparing && second.is_none() {
            second = Some(copy(&side("other"), &side("to"), true, &mut |_, _, _| {}));
        }
    });
    let second = second.expect("there was something to compare");
    // The one that went well is there, whole.
    assert!(first.is_ok() != second.is_ok(), "{first:?} and {second:?}");
    let wanted = if first.is_ok() { &one } else { &other };
    assert!(std::fs::read(place.path("to")).unwrap() == *wanted, "{first:?} and {second:?}");
    assert_eq!(first.unwrap().resumed, 1 << 20);
    assert_eq!(second.unwrap_err().errno(), libc::EBUSY);
    assert!(!place.path(&part).exists());
    copy(&side("other"), &side("to"), true, &mut |_, _, _| {}).unwrap();
    assert!(std::fs::read(place.path("to")).unwrap() == other);
}

#[test]
fn a_file_that_is_appended_to_can_be_written_over() {
    let place = Place::new();
    let file = place.node.open("a", RW | libc::O_APPEND, 0o644).unwrap();
    for len in [100, 40_000, 600_000] {
        file.truncate(0).unwrap();
        file.write_at(&vec![1; len], 77).unwrap();
        assert_eq!(file.write_over(&vec![2; len - 9], 5).unwrap(), len - 9);
        assert_eq!(file.write(b"end").unwrap(), 3);
        let wanted = [&[1; 5][..], &vec![2; len - 9], &[1; 4], b"end"].concat();
        assert!(std::fs::read(place.path("a")).unwrap() == wanted, "{len}");
    }
    assert_eq!(file.write_over(b"x", 1 << 63).unwrap_err().errno(), libc::EINVAL);
    let plain = place.node.open("b", RW, 0o644).unwrap();
    assert_eq!(plain.write_over(b"bcd", 1).unwrap(), 3);
    assert_eq!(std::fs::read(place.path("b")).unwrap(), b"\0bcd");
}

#[test]
fn a_write_beyond_the_last_offset_writes_nothing() {
    const END: u64 = i64::MAX as u64;
    let place = Place::new();
    let bytes = vec![9; 600_000];
    let local = std::fs::File::create(place.path("local")).unwrap();
    for (flags, behind) in [(RW, 0), (RW, 4 << 20), (RW | libc::O_APPEND, 0)] {
        std::fs::write(place.path("a"), "keep").unwrap();
        let file = place.node.open("a", flags, 0o644).unwrap();
        file.set_write_behind(behind).unwrap();
        for start in [END - 599_999, END - 300_000, END - 1, END] {
            let kernel = rustix::io::pwrite(&local, &bytes, start).unwrap_err().raw_os_error();
            assert_eq!(kernel, libc::EINVAL);
            let errno = |outcome: wiglaf_files::Result<usize>| outcome.map_err(|e| e.errno());
            assert_eq!(errno(file.write_at(&bytes, start)), Err(kernel), "{start}");
            assert_eq!(errno(file.write_over(&bytes, start)), Err(kernel), "{start}");
            file.seek(SeekFrom::Start(start)).unwrap();
            assert_eq!(errno(file.write(&bytes)), Err(kernel), "{start}, {behind}");
            let mut room = vec![0; 600_000];
            assert_eq!(errno(file.read_at(&mut room, start)), Err(kernel), "{start}");
            assert_eq!(errno(file.read(&mut room)), Err(kernel), "{start}");
            assert_eq!(file.start_read(600_000, start).unwrap_err().errno(), kernel, "{start}");
            file.sync(false).unwrap();
            let there = std::fs::read(place.path("a")).unwrap();
            assert!(there == b"keep", "{start}, {behind}: {} bytes", there.len());
        }
    }
}

#[test]
fn pieces_are_written_and_filled_in_their_order() {
    use std::io::{IoSlice, IoSliceMut};
    let place = Place::new();
    let file = place.node.open("a", RW, 0o644).unwrap();
    let long: Vec<u8> = (0..600_000).map(|i| (i / 251) as u8).collect();
    let pieces = [&b"first"[..], b"", &long, b"last"].map(IoSlice::new);
    assert_eq!(file.write_vectored(&pieces).unwrap(), 600_009);
    let wanted = [b"first", &long[..], b"last"].concat();
    assert!(std::fs::read(place.path("a")).unwrap() == wanted);
    file.seek(SeekFrom::Start(3)).unwrap();
    let (mut head, mut middle, mut tail) = ([0; 4], vec![0; 599_998], [7; 9]);
    let mut pieces = [&mut head[..], &mut [], &mut middle, &mut tail].map(IoSliceMut::new);
    // The file ends within the last piece.
    assert_eq!(file.read_vectored(&mut pieces).unwrap(), 600_006);
    assert!([&head, &middle[..], &tail[..4]].concat() == wanted[3..]);
    assert_eq!(tail[4..], [7; 5]);
    assert_eq!(file.seek(SeekFrom::Current(0)).unwrap(), 600_009);
    let read_only = place.node.open("a", libc::O_RDONLY, 0).unwrap();
    let error = read_only.write_vectored(&[IoSlice::new(b"x")]).unwrap_err();
    assert_eq!(error.errno(), libc::EBADF);
}

#[test]
fn nothing_is_read_ahead_beyond_the_last_offset() {
    const END: u64 = i64::MAX as u64;
    let place = Place::new();
    let dir = TempDir::new_in(SHM).unwrap();
    let file = place.node.open(dir.path().join("long"), RW, 0o644).unwrap();
    file.truncate(END).unwrap();
    file.set_read_ahead(1 << 20).unwrap();
    file.seek(SeekFrom::Start(END - 350_000)).unwrap();
    for parts_left in (1..=7).rev() {
        let got = file.read(&mut [0; 50_000]).map_err(|error| error.errno());
        assert_eq!(got, Ok(50_000), "{parts_left} parts before it");
    }
}

#[test]
fn a_folder_can_be_entered_again_and_again() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("d/e")).unwrap();
    std::os::unix::fs::symlink("d/e", place.path("link")).unwrap();
    for round in 0..2000 {
        let entered = place.node.enter("d").and_then(|()| place.node.enter("../d/./.."));
        entered.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    // As with chdir(2) it is the folder that was entered, not the way there.
    place.node.enter("link").unwrap();
    place.node.make_dir("new", 0o755).unwrap();
    std::fs::remove_file(place.path("link")).unwrap();
    place.node.enter("..").unwrap();
    assert!(place.path("d/e/new").is_dir());
    assert!(place.node.attributes("e/new", true).is_ok());
    let far = "./".repeat(1000);
    for len in 4090..4100 {
        let path = format!("{}{far}{far}", place.path("d/").display());
        let error = place.node.enter(format!("{path:/<len$}")).err().map(|error| error.errno());
        assert_eq!(error, (len > 4095).then_some(libc::ENAMETOOLONG), "{len}");
    }
}

#[test]
fn a_file_is_appended_to_however_it_was_opened() {
    let place = Place::new();
    for flags in [RW | libc::O_TRUNC, RW | libc::O_TRUNC | libc::O_APPEND] {
        let file = place.node.open("a", flags, 0o644).unwrap();
        let mut other = std::fs::File::options().append(true).open(place.path("a")).unwrap();
        let mut wanted = Vec::new();
        for len in [1, 100, 40_000, 2_500_000] {
            let bytes = vec![len as u8; len];
            std::io::Write::write_all(&mut other, b"other").unwrap();
            assert_eq!(file.append(&bytes).unwrap(), len);
            // Afterwards it is as it was opened.
            let over = if flags & libc::O_APPEND == 0 { file.write_at(b"o", 0) } else { Ok(1) };
            assert_eq!(over.unwrap(), 1);
            wanted.extend([&b"other"[..], &bytes].concat());
            assert!(std::fs::read(place.path("a")).unwrap() == wanted, "{len}");
        }
    }
}
