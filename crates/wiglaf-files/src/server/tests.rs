//! A server under messages that no client of ours sends.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use proptest::prelude::*;
use wiglaf_endpoint::Address;

use super::*;
use crate::testing::{endpoint, flooded};
use crate::wire::{OpenFlags, unpack};

/// A client that is bare enough to send anything.
struct Bare {
    port: Port,
    server: PeerId,
    next: u64,
}

/// A server in a thread, its client, and a stranger who has the key.
struct Scene {
    dir: tempfile::TempDir,
    client: Bare,
    stranger: Bare,
    line: Option<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bare {
    fn new(mut endpoint: Endpoint, server: Address) -> Self {
        let server = endpoint.insert(server);
        Self { port: Port::new(endpoint), server, next: 1 }
    }

    fn send(&mut self, tag: u64, body: &[u8]) -> u64 {
        let id = self.next;
        self.next += 1;
        let label = Label { to: self.server, is_request: true, tag, data: id };
        self.port.inject(label, body).unwrap();
        id
    }

    fn content(&mut self, id: u64, bytes: &[u8]) {
        let label = Label { to: self.server, is_request: false, tag: id, data: 0 };
        let mut lent = Lent::new(bytes.to_vec());
        let region = lent.region(bytes.len());
        // SAFETY: the buffer is kept until the send has ended.
        unsafe { self.port.send(label, &[region], 1) }.unwrap();
        while self.port.next_end().is_none_or(|ended| ended.is_receive) {
            self.port.endpoint.wait(Duration::from_millis(1));
        }
    }

    fn answer(&mut self, id: u64) -> (Result<u64>, Vec<u8>) {
        let mut lent = Lent::new(vec![0; DATA_LEN_MAX]);
        let region = lent.region(DATA_LEN_MAX);
        // SAFETY: the buffer is kept until the receive has ended.
        unsafe { self.port.receive(self.server, id, &[region], 2) }.unwrap();
        let began = Instant::now();
        loop {
            while let Some(ended) = self.port.next_end() {
                if ended.is_receive {
                    let mut bytes = lent.back();
                    bytes.truncate(ended.len);
                    return (unpack(ended.data), bytes);
                }
            }
            // Only bounds how long a broken test hangs.
            assert!(began.elapsed() < Duration::from_secs(60), "no answer");
            self.port.endpoint.wait(Duration::from_millis(1));
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> (Result<u64>, Vec<u8>) {
        let mut body = request.head();
        if let Request::Write { bytes, .. } = request {
            body.extend_from_slice(bytes);
        }
        let id = self.send(request.tag(), &body);
        self.answer(id)
    }

    fn open(&mut self, path: &Path) -> u32 {
        let flags = OpenFlags(OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE);
        let path = path.to_str().unwrap().as_bytes();
        self.ask(&Request::Open { flags, mode: 0o644, path }).0.unwrap() as u32
    }

    fn counters(&mut self) -> Counters {
        Counters::parse(&self.ask(&Request::Counters).1).unwrap()
    }

    /// Asks for the counters under the number `id`, without using up the next number.
    fn counters_as(&mut self, id: u64) -> Counters {
        let next = std::mem::replace(&mut self.next, id);
        let counters = self.counters();
        self.next = next;
        counters
    }
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (at_server, at_client, at_stranger) = (endpoint(), endpoint(), endpoint());
        let (server, client) = (at_server.name(), at_client.name());
        let (theirs, line) = rustix::pipe::pipe().unwrap();
        let roots = Roots::open(&[dir.path().to_owned()]).0;
        let thread = std::thread::spawn(move || {
            let mut endpoint = at_server;
            let peer = endpoint.insert(client);
            Server::new(endpoint, peer, roots).run(theirs.as_fd());
        });
        Self {
            dir,
            client: Bare::new(at_client, server),
            stranger: Bare::new(at_stranger, server),
            line: Some(line),
            thread: Some(thread),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.line.take());
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn strangers_are_ignored_and_counted() {
    let mut scene = Scene::new();
    let file = scene.dir.path().join("f");
    std::fs::write(&file, "x").unwrap();
    let unlink = Request::Unlink { path: file.to_str().unwrap().as_bytes() };
    for _ in 0..3 {
        scene.stranger.send(unlink.tag(), &unlink.head());
    }
    while scene.client.counters().strangers < 3 {
        scene.stranger.port.endpoint.progress();
    }
    assert!(file.exists());
    // Nor is content of theirs taken for the client's, though it came first.
    let handle = scene.client.open(&file);
    let bulk = Request::WriteBulk { handle, len: 40_000, offset: 0 };
    scene.stranger.content(scene.client.next, &[b's'; 40_000]);
    scene.stranger.send(unlink.tag(), &unlink.head());
    while scene.client.counters_as(77).strangers < 4 {
        scene.stranger.port.endpoint.progress();
    }
    let id = scene.client.send(bulk.tag(), &bulk.head());
    scene.client.content(id, &[b'c'; 40_000]);
    assert_eq!(scene.client.answer(id).0, Ok(40_000));
    assert!(std::fs::read(&file).unwrap() == [b'c'; 40_000]);
}

#[test]
fn a_flood_does_not_keep_a_server_from_its_end() {
    let (mut endpoint, client, _silent) = flooded();
    let client = endpoint.insert(client);
    let (theirs, line) = rustix::pipe::pipe().unwrap();
    drop(line);
    let (done, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        Server::new(endpoint, client, Roots::default()).run(theirs.as_fd());
        done.send(())
    });
    // Only bounds how long a broken test hangs.
    end.recv_timeout(Duration::from_secs(60)).expect("the server ends with its line");
}

#[test]
fn content_that_is_not_whole_is_not_written() {
    let mut scene = Scene::new();
    let path = scene.dir.path().join("f");
    let handle = scene.client.open(&path);
    for len in [0, 39_999, 40_001] {
        let bulk = Request::WriteBulk { handle, len: 40_000, offset: 0 };
        let id = scene.client.send(bulk.tag(), &bulk.head());
        scene.client.content(id, &vec![1; len]);
        let error = scene.client.answer(id).0.unwrap_err();
        assert_eq!((error.errno(), error.reason()), (libc::EPROTO, Reason::Malformed));
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(scene.client.counters().refused[Reason::Malformed as usize], 3);
}

/// A client that ends while its content is being pulled.
#[test]
fn a_part_of_the_content_is_not_written() {
    const LEN: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, "").unwrap();
    let (mut at_server, at_client) = (endpoint(), endpoint());
    let client = at_server.insert(at_client.name());
    let mut bare = Bare::new(at_client, at_server.name());
    let mut server = Server::new(at_server, client, Roots::open(&[dir.path().to_owned()]).0);
    let flags = OpenFlags(OpenFlags::WRITE);
    let name = path.to_str().unwrap().as_bytes();
    let open = server.files.carry_out(&Request::Open { flags, mode: 0, path: name }).unwrap();
    let bulk = Request::WriteBulk { handle: open.count as u32, len: LEN as u32, offset: 0 };
    let id = bare.send(bulk.tag(), &bulk.head());
    let label = Label { to: bare.server, is_request: false, tag: id, data: 0 };
    let mut lent = Lent::new(vec![1; LEN]);
    let region = lent.region(LEN);
    // SAFETY: the buffer outlives the endpoint.
    unsafe { bare.port.send(label, &[region], 1) }.unwrap();
    let began = Instant::now();
    let is_waiting = |server: &Server| server.under_way.iter().any(Option::is_some);
    let arrived = |server: &Server| server.port.endpoint.stats().datagrams_received;
    // Some of it has come, and not all.
    while arrived(&server) < 8 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is pulled");
        bare.port.endpoint.progress();
        server.turn();
    }
    assert!(is_waiting(&server));
    drop(bare);
    while is_waiting(&server) {
        assert!(began.elapsed() < Duration::from_secs(60), "the client's end is not noticed");
        server.turn();
    }
    drop(lent);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(server.counters.refused[Reason::Malformed as usize], 1);
}

/// Listing takes the right to read a folder, and no other.
#[test]
fn a_folder_that_may_only_be_read_is_listed() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root may become somebody else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(dir.path(), 0o755);
    let path = dir.path().join("d");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("x"), "").unwrap();
    allow(&path, 0o444);
    let mut files = Files::new(Roots::open(&[dir.path().to_owned()]).0);
    let listed = std::thread::spawn(move || {
        let user = rustix::process::Uid::from_raw(65534);
        // Of this thread alone.
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let open = |files: &mut Files| {
            let name = path.to_str().unwrap().as_bytes();
            let flags = OpenFlags(OpenFlags::READ);
            files.carry_out(&Request::Open { flags, mode: 0, path: name }).map(|done| done.count)
        };
        let handle = open(&mut files).unwrap() as u32;
        let mut list = |restart| {
            let listed = files.carry_out(&Request::ReadDir { handle, restart })?;
            let entries = crate::wire::Entry::parse_all(&listed.payload).unwrap();
            Ok::<_, Error>(entries.into_iter().filter(|entry| entry.name == b"x").count())
        };
        [list(false), list(false), list(true), list(true), list(false)]
    });
    let listed = listed.join().unwrap();
    assert_eq!(listed, [Ok(1), Ok(0), Ok(1), Ok(1), Ok(0)]);
    // As the library lists folders of its own node.
    let folder = crate::Files::new().attach("localhost").unwrap();
    let path = dir.path().join("d");
    let listed = std::thread::spawn(move || {
        let user = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let mut folder = folder.list(path)?;
        let mut names = 0;
        for _ in 0..2 {
            while let Some(entry) = folder.next_entry()? {
                names += usize::from(entry.name == b"x");
            }
            folder.rewind();
        }
        Ok::<_, Error>(names)
    });
    assert_eq!(listed.join().unwrap(), Ok(2));
}

#[test]
fn handles_that_are_not_open_are_refused() {
    let mut scene = Scene::new();
    let handle = scene.client.open(&scene.dir.path().join("f"));
    scene.client.ask(&Request::Close { handle }).0.unwrap();
    let next = scene.client.open(&scene.dir.path().join("g"));
    assert_ne!(handle, next, "an old handle must not mean a new file");
    for handle in [handle, 77, u32::MAX] {
        for request in [
            Request::Close { handle },
            Request::Read { handle, len: 1, offset: 0 },
            Request::Write { handle, offset: 0, bytes: b"x" },
            Request::StatHandle { handle },
            Request::ReadDir { handle, restart: false },
            Request::TruncateHandle { handle, size: 1 << 40 },
        ] {
            let error = scene.client.ask(&request).0.unwrap_err();
            assert_eq!((error.errno(), error.reason()), (libc::EBADF, Reason::BadHandle));
        }
    }
    assert_eq!(scene.client.counters().refused[Reason::BadHandle as usize], 18);
}

#[test]
fn a_lock_whose_wait_was_ended_is_answered_with_eintr_and_not_taken() {
    let mut scene = Scene::new();
    let handle = scene.client.open(&scene.dir.path().join("f"));
    let lock = |owner| {
        let kind = crate::wire::LockKind::Exclusive;
        crate::wire::Lock { owner, kind, last: 9, ..crate::wire::Lock::default() }
    };
    let at_once = |owner| Request::Lock { handle, lock: lock(owner), waits: false };
    assert_eq!(scene.client.ask(&at_once(1)).0, Ok(0));
    let waits = Request::Lock { handle, lock: lock(2), waits: true };
    let id = scene.client.send(waits.tag(), &waits.head());
    for _ in 0..2 {
        assert_eq!(scene.client.ask(&Request::EndWait { id }).0, Ok(0));
    }
    assert_eq!(scene.client.answer(id).0.unwrap_err().errno(), libc::EINTR);
    assert_eq!(scene.client.ask(&Request::FreeLocks { handle, owner: 1 }).0, Ok(0));
    assert_eq!(scene.client.ask(&at_once(3)).0, Ok(0));
    assert_eq!(scene.client.ask(&at_once(1)).0.unwrap_err().errno(), libc::EAGAIN);
}

#[test]
fn a_plain_file_is_not_written_over() {
    let mut scene = Scene::new();
    let path = scene.dir.path().join("f");
    std::fs::write(&path, "keep").unwrap();
    let handle = scene.client.open(&path);
    for offset in [1 << 63, (1 << 63) + 1] {
        let write = Request::Write { handle, offset, bytes: b"lost" };
        assert_eq!(scene.client.ask(&write).0.unwrap_err().errno(), libc::EINVAL);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"keep");
}

#[test]
fn more_files_than_a_server_holds_are_refused() {
    let mut scene = Scene::new();
    let path = scene.dir.path().join("f");
    scene.client.open(&path);
    let (soft, _) = (rustix::process::getrlimit(rustix::process::Resource::Nofile).current, ());
    let most = soft.map_or(4096, |soft| soft.min(4096) as usize);
    let flags = OpenFlags(OpenFlags::READ);
    let mut open = 1;
    let error = loop {
        let request = Request::Open { flags, mode: 0, path: path.to_str().unwrap().as_bytes() };
        match scene.client.ask(&request).0 {
            Ok(_) => open += 1,
            Err(error) => break error,
        }
        assert!(open <= most, "no limit held");
    };
    assert_eq!(error.errno(), libc::EMFILE);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn any_messages_leave_the_server_alive(
        messages in prop::collection::vec((0u8..40, prop::collection::vec(any::<u8>(), 0..64)), 1..60)
    ) {
        let mut scene = Scene::new();
        let magic = Request::Counters.tag() & !0xff;
        let ids: Vec<u64> =
            messages.iter().map(|(number, body)| scene.client.send(magic | u64::from(*number), body)).collect();
        for id in ids {
            let _ = scene.client.answer(id);
        }
        let counters = scene.client.counters();
        let refused: u64 = counters.refused.iter().sum();
        prop_assert_eq!(counters.served + refused, messages.len() as u64);
    }
}
