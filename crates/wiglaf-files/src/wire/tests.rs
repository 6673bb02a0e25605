//! What was written is read again, and nothing else is.

use proptest::prelude::*;

use super::answer::d_type;
use super::*;
use crate::error::{Error, Reason};

fn samples() -> Vec<Request<'static>> {
    let path: &[u8] = b"/scratch/a";
    let at = NewTime::At { seconds: -5, nanos: 999_999_999 };
    let lock = Lock {
        owner: u64::MAX,
        pid: 9,
        kind: LockKind::Exclusive,
        start: 1,
        last: i64::MAX as u64,
        is_flock: false,
    };
    vec![
        Request::Hello { newest: 1 },
        Request::Open { flags: OpenFlags(OpenFlags::READ | OpenFlags::CREATE), mode: 0o644, path },
        Request::Close { handle: 7 },
        Request::Read { handle: 7, len: 4096, offset: 1 << 40 },
        Request::Write { handle: 7, offset: 9, bytes: b"bytes" },
        Request::Write { handle: 7, offset: 9, bytes: b"" },
        Request::WriteBulk { handle: 7, len: 1 << 20, offset: 3 },
        Request::Stat { follow: true, path },
        Request::StatHandle { handle: 1 },
        Request::Sync { handle: 1, data_only: true },
        Request::Truncate { size: 5, path },
        Request::TruncateHandle { handle: 1, size: 5 },
        Request::Unlink { path },
        Request::Rename { flags: 0, from: path, to: b"/scratch/b" },
        Request::MakeDir { mode: 0o755, path },
        Request::RemoveDir { path },
        Request::ReadDir { handle: 2, restart: false },
        Request::Counters,
        Request::SetMode { mode: 0o600, path },
        Request::SetTimes { access: NewTime::Now, change: at, follow: false, path },
        Request::ReadLink { path },
        Request::SymLink { target: b"b", path },
        Request::HardLink { from: path, to: b"/scratch/b" },
        Request::Space { path },
        Request::Lock { handle: 3, lock, waits: true },
        Request::Lock { handle: 3, lock: Lock { kind: LockKind::Free, ..lock }, waits: false },
        Request::Lock { handle: 3, lock: Lock::whole(LockKind::Shared), waits: false },
        Request::TestLock { handle: 3, lock },
        Request::EndWait { id: u64::MAX },
        Request::FreeLocks { handle: 3, owner: u64::MAX },
        Request::Root { path },
        Request::SetModeHandle { handle: 4, mode: 0o640 },
        Request::SetTimesHandle { handle: 5, access: at, change: NewTime::Keep },
        Request::Enter { path },
    ]
}

fn whole(request: &Request<'_>) -> Vec<u8> {
    let mut body = request.head();
    if let Request::Write { bytes, .. } = request {
        body.extend_from_slice(bytes);
    }
    body
}

#[test]
fn requests_come_back() {
    for request in samples() {
        assert_eq!(Request::parse(request.tag(), &whole(&request)), Ok(Some(request)));
    }
}

#[test]
fn a_body_of_another_length_is_refused() {
    for request in samples() {
        let body = whole(&request);
        for len in 0..body.len() {
            let parsed = Request::parse(request.tag(), &body[..len]);
            // A path may be cut and stay one; nothing else may.
            assert_ne!(parsed, Ok(Some(request)), "{request:?} cut to {len}");
        }
        let longer = [body, vec![0]].concat();
        assert_eq!(Request::parse(request.tag(), &longer), Err(Malformed), "{request:?}");
    }
}

#[test]
fn limits_hold() {
    let tag = Request::Read { handle: 0, len: 0, offset: 0 }.tag();
    let read = |len: u32| Request::Read { handle: 0, len, offset: 0 }.head();
    assert!(Request::parse(tag, &read(DATA_LEN_MAX as u32)).is_ok());
    assert_eq!(Request::parse(tag, &read(DATA_LEN_MAX as u32 + 1)), Err(Malformed));
    let long = vec![b'a'; PATH_LEN_MAX + 1];
    let unlink = Request::Unlink { path: &long };
    assert_eq!(Request::parse(unlink.tag(), &unlink.head()), Err(Malformed));
    for path in [&b""[..], b"a\0b"] {
        let unlink = Request::Unlink { path };
        assert_eq!(Request::parse(unlink.tag(), &unlink.head()), Err(Malformed));
    }
    // A version or number that is to come is not malformed, but not known.
    assert_eq!(Request::parse(MAGIC | (u64::from(VERSION) + 1) << 8 | 1, b"?"), Ok(None));
    assert_eq!(Request::parse(MAGIC | u64::from(VERSION) << 8 | 200, b"?"), Ok(None));
    assert_eq!(Request::parse(u64::from(VERSION) << 8 | 1, b"?"), Err(Malformed));
}

#[test]
fn a_lock_that_makes_no_sense_is_malformed() {
    let lock = Lock { kind: LockKind::Shared, start: 5, last: 9, ..Lock::default() };
    let parsed = |change: &dyn Fn(&mut Vec<u8>)| {
        let request = Request::Lock { handle: 1, lock, waits: false };
        let mut body = request.head();
        change(&mut body);
        Request::parse(request.tag(), &body).map(|_| ())
    };
    assert!(parsed(&|_| ()).is_ok());
    // Of two kinds, of an unknown one, ending before its start, and behind the last byte.
    for (at, byte) in [(4, 3), (4, 16), (32, 4), (39, 0x80)] {
        assert_eq!(parsed(&|body| body[at] = byte), Err(Malformed), "{at} {byte}");
    }
    let none = Request::TestLock { handle: 1, lock: Lock { kind: LockKind::Free, ..lock } };
    assert_eq!(Request::parse(none.tag(), &none.head()), Err(Malformed));
}

#[test]
fn statuses_come_back() {
    for count in [0, 1, 4096, i64::MAX as u64] {
        assert_eq!(unpack(status(&Ok(count))), Ok(count));
    }
    let error = Error::new(rustix::io::Errno::ACCESS, Reason::Escape);
    assert_eq!(unpack(status(&Err(error.clone()))), Err(error));
    // An error without a number is not taken for success.
    assert!(unpack((-(1i64 << 16)) as u64).is_err());
    assert!(unpack(i64::MIN as u64).is_err());
}

#[test]
fn attributes_and_space_come_back() {
    let attributes = Attributes {
        mode: 1,
        size: 1 << 50,
        modified: (-1, 7),
        dev: 2,
        rdev: 3,
        ..Default::default()
    };
    let mut bytes = Vec::new();
    attributes.put(&mut bytes);
    assert_eq!(bytes.len(), Attributes::LEN);
    assert_eq!(Attributes::parse(&bytes), Ok(attributes));
    let space = Space { block_len: 4096, files_free: 9, ..Default::default() };
    let mut bytes = Vec::new();
    space.put(&mut bytes);
    assert_eq!(Space::parse(&bytes), Ok(space));
}

/// Some file systems count characters.
#[test]
fn names_may_be_longer_than_linux_has_them() {
    let entry = |len, kind| Entry { ino: 7, kind, name: vec![b'n'; len] };
    let entries = [entry(1, 8), entry(255, 4), entry(256, 8), entry(765, 10)];
    let mut bytes = Vec::new();
    for entry in &entries {
        let before = bytes.len();
        entry.put(&mut bytes);
        assert_eq!(bytes.len() - before, entry.wire_len());
    }
    assert_eq!(Entry::parse_all(&bytes).as_deref(), Ok(&entries[..]));
}

#[test]
fn a_name_with_a_slash_is_no_name() {
    let mut bytes = Vec::new();
    Entry { ino: 1, kind: 8, name: b"../x".to_vec() }.put(&mut bytes);
    assert_eq!(Entry::parse_all(&bytes), Err(Malformed));
}

#[test]
fn a_type_that_is_not_told_is_no_type() {
    use rustix::fs::FileType;
    let told = [
        (FileType::Unknown, libc::DT_UNKNOWN),
        (FileType::RegularFile, libc::DT_REG),
        (FileType::Directory, libc::DT_DIR),
        (FileType::Symlink, libc::DT_LNK),
        (FileType::Fifo, libc::DT_FIFO),
        (FileType::Socket, libc::DT_SOCK),
        (FileType::CharacterDevice, libc::DT_CHR),
        (FileType::BlockDevice, libc::DT_BLK),
    ];
    for (kind, number) in told {
        assert_eq!(d_type(kind), number, "{kind:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(number: u8, body in prop::collection::vec(any::<u8>(), 0..96)) {
        let _ = Request::parse(MAGIC | u64::from(VERSION) << 8 | u64::from(number), &body);
        let _ = Attributes::parse(&body);
        let _ = Entry::parse_all(&body);
        let _ = Space::parse(&body);
    }

    #[test]
    fn any_status_is_an_answer(number: u64) {
        let unpacked = unpack(number);
        if let Ok(count) = unpacked {
            prop_assert_eq!(status(&Ok(count)), number);
        }
    }
}
