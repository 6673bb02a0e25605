//! Copying a file, on a server that is a process of its own.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};

use common::Place;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use wiglaf_files::copy::{Copied, PART, Place as Side, Stage, copy};
use wiglaf_files::{Error, Result};

impl Place {
    /// Copies within this folder; no byte of what fails is copied.
    fn copy(&self, from: &str, to: &str) -> Result<Copied> {
        let side = |name: &str| Side { node: self.node.clone(), path: name.into() };
        let mut seen = false;
        let outcome = copy(&side(from), &side(to), true, &mut |_, _, _| seen = true);
        assert_eq!(seen, outcome.is_ok(), "{outcome:?}");
        outcome
    }

    fn mode(&self, name: &str) -> u32 {
        std::fs::symlink_metadata(self.path(name)).unwrap().permissions().mode() & 0o7777
    }

    fn make(&self, name: &str, mode: u32, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn refused(outcome: Result<Copied>, errno: i32, sentence: &str) {
    let error: Error = outcome.unwrap_err();
    assert!(error.errno() == errno && error.to_string().contains(sentence), "{error}");
}

#[test]
fn only_files_are_replaced() {
    let place = Place::new();
    place.make("a", 0o644, b"content");
    place.make("file", 0o644, b"other");
    std::fs::create_dir(place.path("d")).unwrap();
    std::fs::create_dir(place.path("d/a")).unwrap();
    mknodat(CWD, place.path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("file", place.path("link")).unwrap();
    symlink("nowhere", place.path("dangling")).unwrap();
    let names = place.names();
    refused(place.copy("a", "pipe"), libc::EACCES, "not a file");
    refused(place.copy("a", "link"), libc::EACCES, "a symbolic link");
    refused(place.copy("a", "dangling"), libc::EACCES, "a symbolic link");
    refused(place.copy("a", "d"), libc::EISDIR, "a folder");
    refused(place.copy("d", "b"), libc::EISDIR, "only files");
    refused(place.copy("pipe", "b"), libc::EACCES, "not opened");
    refused(place.copy("a", ""), libc::ENOENT, "path");
    refused(place.copy("", "b"), libc::ENOENT, "path");
    refused(place.copy("a", "a"), libc::EINVAL, "the same file");
    assert_eq!(place.names(), names);
    let kind = std::fs::symlink_metadata(place.path("pipe")).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"other");
    place.copy("a", "file").unwrap();
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"content");
}

#[test]
fn what_was_left_gives_a_copy_no_mode() {
    let place = Place::new();
    place.make("a", 0o600, b"content");
    place.make("r", 0o400, b"content");
    for (from, mode) in [("a", 0o600), ("r", 0o400)] {
        place.make(&format!("b{PART}"), 0o644, b"cont");
        assert_eq!(place.copy(from, "b").unwrap().resumed, 4);
        assert_eq!(place.mode("b"), mode, "of the copy of {from}");
    }
}

#[test]
fn what_was_planted_is_not_written_to() {
    let place = Place::new();
    place.make("a", 0o600, b"content");
    place.make("precious", 0o640, b"content of mine");
    let part = format!("b{PART}");
    let plant: [(&str, &dyn Fn()); 4] = [
        ("a link", &|| symlink("precious", place.path(&part)).unwrap()),
        ("a link to nothing", &|| symlink("new", place.path(&part)).unwrap()),
        ("a second name", &|| {
            std::fs::hard_link(place.path("precious"), place.path(&part)).unwrap();
        }),
        ("a pipe", &|| {
            mknodat(CWD, place.path(&part), FileType::Fifo, Mode::RWXU, 0).unwrap();
        }),
    ];
    for (what, plant) in plant {
        plant();
        place.copy("a", "b").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(place.names(), ["a", "b", "precious"], "{what}");
        assert_eq!(place.mode("b"), 0o600, "{what}");
        assert_eq!(std::fs::read(place.path("b")).unwrap(), b"content", "{what}");
        assert_eq!(place.mode("precious"), 0o640, "{what}");
        assert_eq!(std::fs::read(place.path("precious")).unwrap(), b"content of mine", "{what}");
    }
    // Another user's, in a folder that is everybody's.
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root makes other users' files");
        return;
    }
    place.make(&part, 0o666, b"cont");
    std::os::unix::fs::chown(place.path(&part), Some(65534), Some(65534)).unwrap();
    assert_eq!(place.copy("a", "b").unwrap().resumed, 0);
    let made = std::fs::metadata(place.path("b")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), 0);
}

#[test]
fn a_copy_that_is_not_what_was_read_is_removed() {
    let place = Place::new();
    place.make("a", 0o600, &[7; 3 << 20]);
    let side = |name: &str| Side { node: place.node.clone(), path: name.into() };
    let outcome = copy(&side("a"), &side("b"), true, &mut |stage, done, _| {
        // Another program, between the copy and the look at it.
        if (stage, done) == (Stage::Verifying, 0) {
            let part = std::fs::File::options().write(true).open(place.path(&format!("b{PART}")));
            std::os::unix::fs::FileExt::write_all_at(&part.unwrap(), b"8", 2 << 20).unwrap();
        }
    });
    refused(outcome, libc::EIO, "not what was read, and was removed");
    assert_eq!(place.names(), ["a"]);
    place.copy("a", "b").unwrap();
    assert_eq!(std::fs::read(place.path("b")).unwrap(), [7; 3 << 20]);
}

#[test]
fn a_source_that_is_called_like_a_part_is_none() {
    let place = Place::new();
    let part = format!("b{PART}");
    place.make(&part, 0o600, b"content");
    refused(place.copy(&part, "b"), libc::EINVAL, "unfinished copy");
    assert_eq!(place.names(), std::slice::from_ref(&part));
    assert_eq!(std::fs::read(place.path(&part)).unwrap(), b"content");
    place.copy(&part, "c").unwrap();
    assert_eq!(std::fs::read(place.path("c")).unwrap(), b"content");
}

#[test]
fn long_names_are_copied_to() {
    let place = Place::new();
    place.make("a", 0o600, b"content");
    for len in [243, 244, 255] {
        let name = "n".repeat(len);
        place.copy("a", &name).unwrap_or_else(|error| panic!("{len}: {error}"));
        assert_eq!(std::fs::read(place.path(&name)).unwrap(), b"content");
        assert_eq!(place.names(), ["a", &name]);
        std::fs::remove_file(place.path(&name)).unwrap();
    }
    refused(place.copy("a", &"n".repeat(256)), libc::ENAMETOOLONG, "");
}
