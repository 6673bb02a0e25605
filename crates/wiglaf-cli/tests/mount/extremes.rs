//! The ends of what an attribute or a name can be: the same through a mount as on a local disk.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, SeekFrom, Timespec, Timestamps, ftruncate, futimens, mkdirat,
    openat, renameat, seek, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite};

use crate::{Mount, sh, site};

/// In memory, as the nodes' scratch folders are: file systems differ in what they can keep.
const LOCAL: &str = "/dev/shm";

/// Runs the same in a folder of the mount and in a local one, and compares what came of it.
fn compare<T: PartialEq + std::fmt::Debug>(mount: &Mount<'_>, run: impl Fn(&Path) -> T) {
    let [there, here] = [mount.dir.as_path(), Path::new(LOCAL)].map(|base| {
        let dir = tempfile::tempdir_in(base).unwrap();
        let said = run(dir.path());
        // Deeper than the names that remove_dir_all(3) is given can be.
        sh(dir.path(), "find . -mindepth 1 -delete");
        said
    });
    assert!(there == here, "in the mount {there:#?}\non the local disk {here:#?}");
}

/// What stat(2) says of the times.
fn times_of(file: &Path) -> [(i64, i64); 2] {
    let about = fs::symlink_metadata(file).unwrap();
    [(about.atime(), about.atime_nsec()), (about.mtime(), about.mtime_nsec())]
}

#[test]
fn times_from_the_first_to_the_last_second_are_kept_to_the_nanosecond() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    // 1901, 1969, 1970, 2038, 2106 and 2446: where numbers of 31, 32 and 34 bits end.
    let (year_1901, year_2446) = (-(1i64 << 31), (3i64 << 32) + i64::from(i32::MAX));
    let seconds = [
        i64::MIN,
        i64::MIN + 1,
        year_1901 - 1,
        year_1901,
        -2,
        -1,
        0,
        1,
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        year_2446,
        year_2446 + 1,
        i64::MAX - 1,
        i64::MAX,
    ];
    let nanos = [0, 1, 500_000_000, 999_999_999];
    compare(&mount, |dir| {
        fs::write(dir.join("f"), "").unwrap();
        symlinkat("f", CWD, dir.join("link")).unwrap();
        let open = fs::File::options().write(true).open(dir.join("f")).unwrap();
        let mut seen = Vec::new();
        for second in seconds {
            for nano in nanos {
                let time = |tv_nsec| Timespec { tv_sec: second, tv_nsec };
                let times = Timestamps {
                    last_access: time(nano),
                    last_modification: time(999_999_999 - nano),
                };
                let by_name = utimensat(CWD, dir.join("f"), &times, AtFlags::empty());
                seen.push((second, nano, by_name, times_of(&dir.join("f"))));
                let of_link = utimensat(CWD, dir.join("link"), &times, AtFlags::SYMLINK_NOFOLLOW);
                seen.push((second, nano, of_link, times_of(&dir.join("link"))));
                let other = Timestamps {
                    last_access: times.last_modification,
                    last_modification: times.last_access,
                };
                seen.push((second, nano, futimens(&open, &other), times_of(&dir.join("f"))));
            }
        }
        seen
    });
    // Not only here: the file's own node says so, too.
    sh(&mount.dir, "touch -d '1969-12-31 23:59:57.5 UTC' t");
    for said in [sh(&mount.dir, "stat -c %.9Y t"), site.sh("node2", "stat -c %.9Y /scratch/t")] {
        assert_eq!(said.trim(), "-2.500000000");
    }
    mount.umount();
}

#[test]
fn files_are_as_long_as_a_signed_number_of_64_bits_can_say() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let last = i64::MAX as u64;
    let sizes =
        [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, last - 1, last, last + 1, u64::MAX];
    compare(&mount, |dir| {
        let name = dir.join("f");
        let file: OwnedFd =
            fs::File::options().read(true).write(true).create_new(true).open(&name).unwrap().into();
        let mut seen = Vec::new();
        for size in sizes {
            let cut = ftruncate(&file, size);
            let end = seek(&file, SeekFrom::End(0));
            let about = rustix::fs::fstat(&file).map(|about| about.st_size);
            let by_name = statat(CWD, &name, AtFlags::empty()).map(|about| about.st_size);
            // A byte on either side of it.
            let wrote = [size.wrapping_sub(1), size].map(|at| pwrite(&file, b"x", at));
            let mut byte = [0];
            let got = pread(&file, &mut byte, size.wrapping_sub(1));
            let end_then = seek(&file, SeekFrom::End(0));
            seen.push((size, cut, end, about, by_name, wrote, (got, byte), end_then));
            ftruncate(&file, 0).unwrap();
        }
        seen
    });
    mount.umount();
}

#[test]
fn owners_modes_and_links_of_every_number_are_shown() {
    let Some(site) = site() else { return };
    let owners = [0, 1, 65534, 65535, 1 << 31, u32::MAX - 1];
    let make = |dir: &str| {
        let each = owners.map(|owner| format!("touch {owner}; chown {owner}:{owner} {owner}"));
        let modes = "for m in 0 1 7777 4000 2000 1000; do touch m$m; chmod $m m$m; done";
        format!(
            "cd {dir}; {}; {modes}; touch many; i=0; while [ $i -lt 200 ]; do ln many l$i; i=$((i+1)); done",
            each.join("; ")
        )
    };
    site.sh("node2", &make("/scratch"));
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let local = tempfile::tempdir_in(LOCAL).unwrap();
    sh(local.path(), &make("."));
    let show = "stat -c '%n %u %g %a %h %F' [0-9]* m*";
    assert_eq!(sh(&mount.dir, show), sh(local.path(), show));
    mount.umount();
}

#[test]
fn names_have_any_byte_and_255_of_them() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    compare(&mount, |dir| {
        let mut seen = Vec::new();
        for byte in (1..=255u8).filter(|byte| *byte != b'/') {
            for len in [1, 255, 256] {
                let name = dir.join(OsString::from_vec(vec![byte; len]));
                // `.` and `..` are there already.
                let made = fs::write(&name, [byte]).map_err(|error| error.raw_os_error());
                let read = fs::read(&name).map_err(|error| error.raw_os_error());
                seen.push((byte, len, made, read));
            }
        }
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        (seen, names)
    });
    mount.umount();
}

#[test]
fn a_path_has_4095_bytes_and_a_folder_may_lie_deeper() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    compare(&mount, |dir| {
        let room = 4095 - dir.as_os_str().len();
        // The longest path that one call can name, and one byte more.
        let mut path = dir.to_owned();
        for _ in 0..room / 101 - 1 {
            path.push("n".repeat(100));
            fs::create_dir(&path).unwrap();
        }
        let left = 4095 - path.as_os_str().len() - 1;
        let seen = [left, left + 1].map(|len| {
            fs::write(path.join("x".repeat(len)), "x").map_err(|error| error.raw_os_error())
        });
        // Step by step one gets deeper.
        let folder = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = openat(CWD, dir, folder, Mode::empty()).unwrap();
        let mut depths = Vec::new();
        for depth in 0..60 {
            let name = "d".repeat(150);
            let made = mkdirat(&at, &name, Mode::RWXU);
            let next = openat(&at, &name, folder, Mode::empty());
            depths.push((depth, made, next.as_ref().map(drop).map_err(|errno| *errno)));
            let Ok(next) = next else { break };
            at = next;
        }
        // Everything can be done there.
        let new = OFlags::CREATE | OFlags::RDWR;
        let file = openat(&at, "f", new, Mode::RUSR | Mode::WUSR);
        let wrote = file.as_ref().map_err(|errno| *errno).and_then(|file| pwrite(file, b"deep", 0));
        let renamed = renameat(&at, "f", &at, "g");
        let linked = symlinkat("g", &at, "link");
        let size = statat(&at, "g", AtFlags::empty()).map(|about| about.st_size);
        let names = rustix::fs::Dir::read_from(&at).map(Iterator::count);
        let gone = ["g", "link"].map(|name| unlinkat(&at, name, AtFlags::empty()));
        let times = Timestamps {
            last_access: Timespec { tv_sec: 1, tv_nsec: 1 },
            last_modification: Timespec { tv_sec: 2, tv_nsec: 2 },
        };
        let set = utimensat(&at, ".", &times, AtFlags::empty());
        let outcome: [Result<(), Errno>; 5] = [renamed, linked, gone[0], gone[1], set];
        (seen, depths, wrote, outcome, size, names)
    });
    mount.umount();
}
