//! What locks of one server do to each other, to those of another server of the node, and to its programs.

use std::fs::File;

use super::*;
use crate::file::OFFSET_MAX;

const HANDLE: u32 = 7;

/// A file that a server has open.
struct Scene {
    dir: tempfile::TempDir,
    file: OwnedFd,
    locks: Locks,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = open_rw(&dir).into();
        Self { dir, file, locks: Locks::default() }
    }

    fn set(&mut self, lock: &Lock) -> std::result::Result<(), i32> {
        self.locks.set(&self.file, HANDLE, lock).map_err(|error| error.errno())
    }

    /// Asks again for what is waited for; the numbers of those waits that have ended.
    fn ask_again(&mut self) -> Vec<u64> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for wait in self.locks.take_due(now) {
            match self.locks.set(&self.file, wait.handle, &wait.lock) {
                Err(error) if error.errno() == libc::EAGAIN => self.locks.put_back(wait, now),
                outcome => ended.push(outcome.map(|()| wait.id).unwrap()),
            }
        }
        ended
    }
}

fn open_rw(dir: &tempfile::TempDir) -> File {
    let path = dir.path().join("f");
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn lock(owner: u64, kind: LockKind, start: u64, last: u64) -> Lock {
    Lock { owner, pid: owner as u32, kind, start, last, is_flock: false }
}

const AGAIN: std::result::Result<(), i32> = Err(libc::EAGAIN);
use LockKind::{Exclusive, Free, Shared};

#[test]
fn owners_that_share_a_handle_keep_each_other_out() {
    let mut scene = Scene::new();
    assert_eq!(scene.set(&lock(1, Exclusive, 10, 19)), Ok(()));
    assert_eq!(scene.set(&lock(2, Shared, 19, 19)), AGAIN);
    assert_eq!(scene.set(&lock(2, Exclusive, 20, OFFSET_MAX)), Ok(()));
    let found = scene.locks.in_the_way(&scene.file, &lock(2, Exclusive, 0, 15)).unwrap();
    assert_eq!(found, Some(lock(1, Exclusive, 10, 19)));
    assert_eq!(scene.locks.in_the_way(&scene.file, &lock(1, Shared, 0, 19)), Ok(None));
    // What an owner has it may change, and give back in parts.
    assert_eq!(scene.set(&lock(1, Shared, 12, 13)), Ok(()));
    assert_eq!(scene.set(&lock(2, Shared, 12, 13)), Ok(()));
    assert_eq!(scene.set(&lock(1, Free, 15, OFFSET_MAX)), Ok(()));
    assert_eq!(scene.set(&lock(2, Exclusive, 15, 19)), Ok(()));
    // flock(2) is another matter.
    let whole = Lock::whole(Exclusive);
    assert_eq!(scene.set(&whole), Ok(()));
    assert_eq!(scene.set(&Lock { kind: Free, ..whole }), Ok(()));
}

#[test]
fn other_servers_and_programs_of_the_node_meet_them() {
    let mut scene = Scene::new();
    let mut other = Scene { file: open_rw(&scene.dir).into(), ..Scene::new() };
    assert_eq!(scene.set(&lock(1, Exclusive, 0, 9)), Ok(()));
    // The numbers of owners are each client's own.
    assert_eq!(other.set(&lock(1, Shared, 9, 9)), AGAIN);
    let found = other.locks.in_the_way(&other.file, &lock(1, Shared, 0, 20)).unwrap();
    assert_eq!(found, Some(Lock { owner: 0, pid: 0, ..lock(1, Exclusive, 0, 9) }));
    let program = open_rw(&scene.dir);
    assert_eq!(ofd::set(program.as_fd(), &lock(0, Shared, 5, 5)), Err(Errno::AGAIN));
    scene.locks.free(&scene.file, 1).unwrap();
    assert_eq!(ofd::set(program.as_fd(), &lock(0, Shared, 5, 5)), Ok(()));
    assert_eq!(scene.set(&lock(1, Exclusive, 0, 9)), AGAIN);
    // A server that ends has none.
    assert_eq!(scene.set(&lock(1, Exclusive, 20, 29)), Ok(()));
    assert_eq!(other.set(&lock(1, Exclusive, 20, 29)), AGAIN);
    drop(scene);
    assert_eq!(other.set(&lock(1, Exclusive, 20, 29)), Ok(()));
}

#[test]
fn a_waiting_lock_is_had_when_free_and_not_after_its_wait_was_ended() {
    let mut scene = Scene::new();
    let wanted = lock(2, Exclusive, 0, 9);
    assert_eq!(scene.set(&lock(1, Exclusive, 5, 5)), Ok(()));
    for id in [100, 101] {
        scene.locks.wait(id, &scene.file, HANDLE, &wanted).unwrap();
    }
    assert!(scene.locks.end_wait(100) && !scene.locks.end_wait(100));
    assert_eq!(scene.ask_again(), [0; 0]);
    assert_eq!(scene.set(&lock(1, Free, 0, OFFSET_MAX)), Ok(()));
    // At once, not when its time has come.
    assert_eq!(scene.locks.until_due(Instant::now()), Some(Duration::ZERO));
    assert_eq!(scene.ask_again(), [101]);
    assert_eq!(scene.locks.until_due(Instant::now()), None);
    assert_eq!(scene.set(&lock(3, Shared, 0, 0)), AGAIN);
    // The wait that was ended has left nothing.
    scene.locks.close(HANDLE);
    assert_eq!(scene.set(&lock(3, Exclusive, 0, OFFSET_MAX)), Ok(()));
}

#[test]
fn owners_that_would_wait_for_each_other_are_told() {
    let mut scene = Scene::new();
    for owner in 1..=3 {
        assert_eq!(scene.set(&lock(owner, Exclusive, owner, owner)), Ok(()));
    }
    let wait = |scene: &mut Scene, owner: u64, at: u64| {
        let outcome = scene.locks.wait(owner, &scene.file, HANDLE, &lock(owner, Shared, at, at));
        outcome.map_err(|error| error.errno())
    };
    assert_eq!(wait(&mut scene, 1, 2), Ok(()));
    assert_eq!(wait(&mut scene, 2, 3), Ok(()));
    assert_eq!(wait(&mut scene, 3, 1), Err(libc::EDEADLK));
    // Nothing is in a circle if one of them gives up.
    assert!(scene.locks.end_wait(2));
    assert_eq!(wait(&mut scene, 3, 1), Ok(()));
}

#[test]
fn more_locks_and_waits_than_a_client_may_have_are_refused() {
    let mut scene = Scene::new();
    let refused = |outcome: Result<()>| {
        let error = outcome.unwrap_err();
        assert_eq!((error.errno(), error.reason()), (libc::ENOLCK, Reason::Limit));
    };
    for at in 0..RANGES_MAX as u64 {
        assert_eq!(scene.set(&lock(1, Exclusive, 2 * at, 2 * at)), Ok(()));
    }
    refused(scene.locks.set(&scene.file, HANDLE, &lock(1, Exclusive, OFFSET_MAX, OFFSET_MAX)));
    for id in 0..WAITS_MAX as u64 {
        scene.locks.wait(id, &scene.file, HANDLE, &lock(2, Shared, 0, 0)).unwrap();
    }
    refused(scene.locks.wait(9999, &scene.file, HANDLE, &lock(2, Shared, 0, 0)));
    // They can be given back.
    assert_eq!(scene.set(&lock(1, Free, 0, OFFSET_MAX)), Ok(()));
    assert_eq!(scene.ask_again().len(), WAITS_MAX);
}

/// Its mode was changed while it was open.
#[test]
fn a_file_that_cannot_be_opened_again_is_locked_by_one_owner() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root becomes somebody else");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file: OwnedFd = open_rw(&dir).into();
    let outcomes = std::thread::spawn(move || {
        let user = rustix::process::Uid::from_raw(65534);
        // Of this thread alone.
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let mut locks = Locks::default();
        [1, 2, 1].map(|owner| {
            let at = 10 * owner;
            let lock = lock(owner, Exclusive, at, at);
            locks.set(&file, HANDLE, &lock).map_err(|error| error.errno())
        })
    });
    assert_eq!(outcomes.join().unwrap(), [Ok(()), Err(libc::ENOLCK), Ok(())]);
}
