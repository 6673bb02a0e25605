//! Random sequences of calls, here and on a server: the same results and the
//! same errno. The oracle is the local file system, by plain system calls.

mod common;
#[path = "oracle/local.rs"]
mod local;

use std::sync::OnceLock;

use common::Place;
use local::{Call, FLAGS, Given, Here, NAMES, bytes, call, facts, short, sorted};
use proptest::prelude::*;
use tempfile::TempDir;
use wiglaf_files::{File, SeekFrom};

/// Calls on the first open file, many of which touch the same bytes.
fn call_of_one_file() -> impl Strategy<Value = Call> {
    let len = || prop_oneof![2 => 0..200usize, 2 => 3_000..40_000usize, 2 => 200_000..600_000usize];
    let at = || prop_oneof![0..1_000u64, 0..300_000u64];
    prop_oneof![
        4 => len().prop_map(|l| Call::Read(0, l)),
        8 => (len(), any::<u8>()).prop_map(|(l, b)| Call::Write(0, l, b)),
        8 => at().prop_map(|a| Call::Seek(0, 0, a as i64)),
        1 => (-2_000..0i64).prop_map(|b| Call::Seek(0, 2, b)),
        1 => (len(), at()).prop_map(|(l, a)| Call::ReadAt(0, l, a)),
        1 => (len(), at(), any::<u8>()).prop_map(|(l, a, b)| Call::WriteAt(0, l, a, b)),
        1 => at().prop_map(|s| Call::SetSize(0, s)),
        1 => Just(Call::Size(0)),
    ]
}

/// The outcome of a call on the server.
fn there(place: &Place, open: &mut Vec<File>, call: &Call) -> Given {
    let node = &place.node;
    let number = |n: usize| (n as i64, Vec::new());
    let given = match *call {
        Call::Open(n, f) => node.open(NAMES[n], FLAGS[f], 0o644).map(|file| {
            open.push(file);
            number(0)
        }),
        Call::Close(f) => open.remove(f).close().map(|()| number(0)),
        Call::Read(f, len) => {
            let mut into = vec![0; len];
            open[f].read(&mut into).map(|got| {
                into.truncate(got);
                (got as i64, into)
            })
        }
        Call::Write(f, len, b) => open[f].write(&bytes(len, b)).map(number),
        Call::ReadAt(f, len, at) => {
            let mut into = vec![0; len];
            open[f].read_at(&mut into, at).map(|got| {
                into.truncate(got);
                (got as i64, into)
            })
        }
        Call::WriteAt(f, len, at, b) => open[f].write_at(&bytes(len, b), at).map(number),
        Call::Seek(f, whence, by) => {
            let to = match whence {
                0 => SeekFrom::Start(by as u64),
                1 => SeekFrom::Current(by),
                _ => SeekFrom::End(by),
            };
            open[f].seek(to).map(|at| (at as i64, Vec::new()))
        }
        Call::Size(f) => open[f].attributes().map(|a| facts(&a)),
        Call::SetSize(f, size) => open[f].truncate(size).map(|()| number(0)),
        Call::SetSizeOf(n, size) => node.truncate(NAMES[n], size).map(|()| number(0)),
        Call::Stat(n, follow) => node.attributes(NAMES[n], follow).map(|a| facts(&a)),
        Call::Unlink(n) => node.unlink(NAMES[n]).map(|()| number(0)),
        Call::RemoveDir(n) => node.remove_dir(NAMES[n]).map(|()| number(0)),
        Call::MakeDir(n) => node.make_dir(NAMES[n], 0o755).map(|()| number(0)),
        Call::Rename(a, b) => node.rename(NAMES[a], NAMES[b]).map(|()| number(0)),
        Call::HardLink(a, b) => node.hard_link(NAMES[a], NAMES[b]).map(|()| number(0)),
        Call::MakeLink(a, b) => node.make_link(NAMES[a], NAMES[b]).map(|()| number(0)),
        Call::ReadLink(n) => node.read_link(NAMES[n]).map(|t| (t.len() as i64, t)),
        Call::SetMode(n, mode) => node.set_mode(NAMES[n], mode).map(|()| number(0)),
        Call::List(n) => node.list(NAMES[n]).and_then(|mut folder| {
            let mut names = Vec::new();
            while let Some(entry) = folder.next_entry()? {
                names.push(entry.name);
            }
            Ok((0, sorted(names)))
        }),
        Call::Sync(f) => open[f].sync(false).map(|()| number(0)),
    };
    given.map_err(|error| error.errno())
}

/// One server for all cases of a test, which enter their folders in turn: starting one takes longer
/// than a case.
fn server(of_test: &OnceLock<wiglaf_files::Node>) -> &wiglaf_files::Node {
    of_test.get_or_init(|| {
        common::base();
        wiglaf_files::Files::new().attach("remote").unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn a_server_does_what_the_local_file_system_does(calls in prop::collection::vec(call(), 1..60)) {
        static NODE: OnceLock<wiglaf_files::Node> = OnceLock::new();
        let node = server(&NODE).clone();
        let dir = TempDir::new_in(common::base()).unwrap();
        node.enter(dir.path()).unwrap();
        let place = Place { dir, node };
        let (mut here, mut open) = (Here::new(common::base()), Vec::new());
        for (i, call) in calls.iter().enumerate() {
            let Some(expected) = here.call(call) else { continue };
            let given = there(&place, &mut open, call);
            prop_assert!(
                given == expected,
                "call {i}, {call:?}: {} there, {} here", short(&given), short(&expected)
            );
        }
    }

    /// Of its own calls an open file knows the order, whatever is ahead or behind.
    #[test]
    fn buffering_changes_nothing_for_its_own_file(
        flags in prop_oneof![3 => Just(3usize), 1 => Just(6)],
        (ahead, behind) in (0..3usize, 0..3usize),
        calls in prop::collection::vec(call_of_one_file(), 1..40)
    ) {
        static NODE: OnceLock<wiglaf_files::Node> = OnceLock::new();
        let node = server(&NODE).clone();
        let dir = TempDir::new_in(common::base()).unwrap();
        node.enter(dir.path()).unwrap();
        let place = Place { dir, node };
        let (mut here, mut open) = (Here::new(common::base()), Vec::new());
        let first = Call::Open(0, flags);
        prop_assert_eq!(there(&place, &mut open, &first), here.call(&first).unwrap());
        open[0].set_read_ahead(ahead << 20).unwrap();
        open[0].set_write_behind(behind << 20).unwrap();
        for (i, call) in calls.iter().chain([&Call::Sync(0), &Call::ReadAt(0, 1 << 20, 0)]).enumerate() {
            let Some(expected) = here.call(call) else { continue };
            let given = there(&place, &mut open, call);
            prop_assert!(
                given == expected,
                "call {i}, {call:?}: {} there, {} here", short(&given), short(&expected)
            );
        }
    }
}
