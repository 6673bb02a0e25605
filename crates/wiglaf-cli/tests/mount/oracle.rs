//! Random sequences of calls on a mounted folder and on a local one: the same results and the same errno.

#[path = "../../../wiglaf-files/tests/oracle/local.rs"]
mod local;

use std::path::Path;

use local::{Call, Here, call, short};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Mount, site};

/// In memory, as the nodes' scratch folders are: file systems differ in how they count a folder's names.
const LOCAL: &str = "/dev/shm";

fn agrees(mounted: &Path, calls: &[Call]) -> Result<(), TestCaseError> {
    let (mut here, mut there) = (Here::new(Path::new(LOCAL)), Here::new(mounted));
    let (mut appends, mut links) = (false, false);
    for (number, call) in calls.iter().enumerate() {
        // The position after an append is by the size that the kernel knows, and it knows one for each
        // name (docs/files.md): a file is appended to, or has two names.
        appends |= !links && call.appends();
        links |= !appends && matches!(call, Call::HardLink(..));
        if appends && matches!(call, Call::HardLink(..)) || links && call.appends() {
            continue;
        }
        match (there.call(call), here.call(call)) {
            (None, None) => {}
            // Of a folder that was removed while it is open nothing can be asked (docs/files.md).
            (Some(Err(libc::ESTALE)), _) if here.has_removed_folder() => return Ok(()),
            (Some(given), Some(expected)) => prop_assert!(
                given == expected,
                "call {number}, {call:?}: {} there, {} here",
                short(&given),
                short(&expected)
            ),
            (given, expected) => prop_assert!(false, "{call:?}: {given:?}, {expected:?}"),
        }
    }
    Ok(())
}

#[test]
fn a_mounted_folder_does_what_a_local_one_does() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let calls = prop::collection::vec(call(), 1..60);
    let outcome = TestRunner::new(config).run(&calls, |calls| agrees(&mount.dir, &calls));
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    mount.umount();
}
