use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{FileType, mknodat};

use super::*;

impl Node {
    /// A node with that server.
    pub(crate) fn of_tests(client: Arc<Client>, server: ServerId) -> Self {
        let (folder, has_long_paths) = (Mutex::new(b"/".to_vec()), AtomicBool::new(false));
        let place = Place::Remote(Remote { client, server, folder, has_long_paths });
        Self(Arc::new(Inner { name: "of-tests".to_owned(), place }))
    }
}

/// Each end of a pipe waits for the other to be opened.
#[test]
fn a_call_that_waits_keeps_no_other_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let node = Files::new().attach("localhost").unwrap();
    assert!(node.is_local());
    node.enter(dir.path()).unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (done, ends) = channel();
    for flags in [libc::O_RDONLY, libc::O_WRONLY] {
        let (node, done) = (node.clone(), done.clone());
        std::thread::spawn(move || done.send(node.open("pipe", flags, 0).map(drop)));
    }
    for _ in 0..2 {
        // Only bounds how long a broken test hangs.
        let end = ends.recv_timeout(Duration::from_secs(60)).expect("both ends are opened");
        end.unwrap();
    }
}

#[test]
fn what_is_no_file_is_not_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let node = Files::new().attach("localhost").unwrap();
    node.enter(dir.path()).unwrap();
    mknodat(CWD, dir.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    std::fs::write(dir.path().join("file"), "file").unwrap();
    std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/dev/null", dir.path().join("device")).unwrap();
    // What truncate(2) says of each.
    for (name, errno) in [
        ("pipe", libc::EINVAL),
        ("socket", libc::EINVAL),
        ("device", libc::EINVAL),
        (".", libc::EISDIR),
        ("no", libc::ENOENT),
    ] {
        assert_eq!(node.truncate(name, 1).map_err(|error| error.errno()), Err(errno), "{name}");
    }
    node.truncate("link", 2).unwrap();
    assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"fi");
}
