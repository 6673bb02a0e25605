//! Files and folders whose names go, come back, or are given to others.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::{Mount, site};

#[test]
fn files_outlive_their_names_and_renames_replace() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(mount.path("f"));
    let file = file.as_mut().unwrap();
    file.write_all(b"first").unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    assert!(!mount.path("f").exists());
    fs::write(mount.path("f"), "another").unwrap();
    file.write_all(b" and more").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first and more");
    assert_eq!(file.metadata().unwrap().len(), 14);
    file.set_len(5).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 5);

    // As an editor saves: what was open keeps what it had.
    let mut old = fs::File::open(mount.path("f")).unwrap();
    fs::write(mount.path("f~"), "saved").unwrap();
    fs::rename(mount.path("f~"), mount.path("f")).unwrap();
    assert_eq!(fs::read_to_string(mount.path("f")).unwrap(), "saved");
    text.clear();
    old.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), old.metadata().unwrap().len()), ("another", 7));

    // What is open in a folder goes on when the folder is renamed.
    fs::create_dir_all(mount.path("d/e")).unwrap();
    fs::write(mount.path("d/e/g"), "deep").unwrap();
    let deep = fs::File::open(mount.path("d/e/g")).unwrap();
    fs::rename(mount.path("d"), mount.path("h")).unwrap();
    deep.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(site.sh("node2", "stat -c %a /scratch/h/e/g"), "600\n");
    let error = fs::remove_dir(mount.path("h")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(39), "{error}");

    let busy = site.wiglaf(&["umount", mount.dir.to_str().unwrap()]);
    busy.expect_sentence(1, "is in use");
    drop((deep, old));
    fs::remove_dir_all(mount.path("h")).unwrap();
    let script = "import mmap,os,sys\n\
        f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0)\n\
        assert m[:5]==b'saved',m[:]; m[0:1]=b'S'; m.flush(); m.close(); f.close()\n\
        assert open(sys.argv[1],'rb').read()==b'Saved'";
    if let Ok(done) = Command::new("python3").args(["-c", script]).arg(mount.path("f")).output() {
        assert!(done.status.success(), "{done:?}");
        assert_eq!(site.sh("node2", "cat /scratch/f"), "Saved");
    } else {
        println!("skipped: mapped files: there is no python3");
    }
    file.sync_all().unwrap();
    text.clear();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    let _ = file;
    mount.site.wiglaf(&["umount", "--lazy", mount.dir.to_str().unwrap()]).expect_success();
    let _ = mount.process.kill();
}

#[test]
fn a_second_name_is_that_of_the_file_that_was_meant() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    site.sh("node2", "cd /scratch; echo first > f");
    let open = fs::File::open(mount.path("f")).unwrap();
    let own = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open)));
    let link = |to: &str| {
        use rustix::fs::{AtFlags, CWD, linkat};
        linkat(CWD, &own, CWD, mount.path(to), AtFlags::SYMLINK_FOLLOW)
    };
    link("good").unwrap();
    assert_eq!(site.sh("node2", "cat /scratch/good"), "first\n");
    // The name that it was opened by is another file's now.
    site.sh("node2", "cd /scratch; mv f old; echo second > f");
    assert_eq!(link("wrong"), Err(rustix::io::Errno::STALE));
    assert_eq!(site.sh("node2", "cd /scratch; ls; cat good old"), "f\ngood\nold\nfirst\nfirst\n");
    drop(open);
    mount.umount();
}

/// Who holds a folder holds that one, whatever another node has put in its place.
#[test]
fn nothing_is_done_in_a_folder_that_took_anothers_place() {
    use rustix::fs::{AtFlags, Mode, OFlags, fsync, mkdirat, openat, unlinkat};
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let open = |name: &str| fs::File::open(mount.path(name)).unwrap();
    // Each way in is tried first by one of them.
    let names = ["unlink", "make", "create", "list", "sync"];
    site.sh("node2", &format!("cd /scratch; mkdir link v {}; touch v/x", names.join(" ")));
    let (linked, folders) = (open("link"), names.map(open));
    let script = "cd /scratch; for d; do mv $d old-$d; mkdir $d; touch $d/x; done; \
                  mv link old-link; ln -s v link; touch old-link/x";
    site.sh("node2", &format!("set -- {}; {script}", names.join(" ")));
    // Links are never followed below the mount's root, however short ago they came to be.
    let stale = Err(rustix::io::Errno::STALE);
    assert_eq!(unlinkat(&linked, "x", AtFlags::empty()), stale);
    // What was found is believed for a tenth of a second.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let (dir, new) = (OFlags::DIRECTORY, OFlags::CREATE | OFlags::WRONLY);
    let rwx = Mode::RWXU;
    let [unlink, make, create, list, sync] = folders.each_ref();
    assert_eq!(unlinkat(unlink, "x", AtFlags::empty()), stale);
    assert_eq!(mkdirat(make, "y", rwx), stale);
    assert_eq!(openat(create, "y", new, rwx).map(drop), stale);
    assert_eq!(openat(list, ".", dir, rwx).map(drop), stale);
    assert_eq!(fsync(sync), stale);
    assert_eq!(unlinkat(&linked, "x", AtFlags::empty()), stale);
    let wanted = names.iter().fold("v/x\n".to_owned(), |all, name| format!("{all}{name}/x\n"));
    let script = format!("cd /scratch; for d in v {}; do ls -d $d/*; done", names.join(" "));
    assert_eq!(site.sh("node2", &script), wanted);
    // By its name the new one is found.
    fs::remove_file(mount.path("unlink/x")).unwrap();
    fs::remove_file(mount.path("link/x")).unwrap();
    assert_eq!(site.sh("node2", "cd /scratch; ls v unlink"), "unlink:\n\nv:\n");
    drop((linked, folders));
    mount.umount();
}

/// Who has a file open changes that one, with or without a name.
#[test]
fn an_open_file_is_changed_also_when_its_name_is_gone() {
    use rustix::fs::{Mode, Timespec, Timestamps, fchmod, fstat, futimens};
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let names = ["own", "theirs", "replaced"];
    let files = names.map(|name| fs::File::create_new(mount.path(name)).unwrap());
    fs::remove_file(mount.path("own")).unwrap();
    let script = "cd /scratch; rm theirs; mv replaced old; echo new > replaced; chmod 640 replaced";
    site.sh("node2", script);
    let at = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
    let times = Timestamps { last_access: at(1_000_000_000), last_modification: at(1_100_000_000) };
    for (name, file) in names.iter().zip(&files) {
        assert_eq!(fchmod(file, Mode::from_raw_mode(0o604)), Ok(()), "{name}");
        assert_eq!(futimens(file, &times), Ok(()), "{name}");
        let found = fstat(file).unwrap();
        assert_eq!((found.st_mode & 0o7777, found.st_mtime), (0o604, 1_100_000_000), "{name}");
    }
    let said = site.sh("node2", "cd /scratch; stat -c '%a %n' *; stat -c '%X %Y' old");
    assert_eq!(said, "604 old\n640 replaced\n1000000000 1100000000\n");
    drop(files);
    mount.umount();
}

#[test]
fn a_file_that_took_anothers_place_is_not_emptied() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    site.sh("node2", "cd /scratch; echo first > f; echo kept > g");
    let own = |open: &fs::File| {
        PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(open)))
    };
    let open = fs::File::open(mount.path("f")).unwrap();
    let linked = fs::File::open(mount.path("g")).unwrap();
    site.sh("node2", "cd /scratch; mv f old; echo second > f; mv g target; ln -s target g");
    let truncate = |open: &fs::File| {
        let outcome = fs::File::options().write(true).truncate(true).open(own(open));
        outcome.map(drop).map_err(|error| error.raw_os_error())
    };
    assert_eq!(truncate(&open), Err(Some(116)));
    assert_eq!(truncate(&linked), Err(Some(116)));
    assert_eq!(site.sh("node2", "cd /scratch; cat f old target"), "second\nfirst\nkept\n");
    drop((open, linked));
    // What is meant is emptied, also by who only reads.
    fs::File::create(mount.path("f")).unwrap();
    let read = fs::File::options().read(true).custom_flags(0o1000).open(mount.path("old"));
    read.unwrap();
    assert_eq!(site.sh("node2", "cd /scratch; cat f old; stat -c %s f old"), "0\n0\n");
    mount.umount();
}

/// Others ask for a name, which was there and is not, while it is made again.
#[test]
fn a_file_that_was_just_made_keeps_its_name() {
    let Some(site) = site() else { return };
    site.sh("node2", "mkdir /scratch/d");
    let one = Mount::new(&site, "node2:/scratch/d", &[]);
    let other = Mount::new(&site, "node2:/scratch", &[]);
    let done = std::sync::atomic::AtomicBool::new(false);
    let is_done = || done.load(std::sync::atomic::Ordering::Relaxed);
    let failed = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_done() {
                    let _ = fs::metadata(one.path("f"));
                }
            });
        }
        let mut failed = 0;
        for _ in 0..3000 {
            let file = fs::File::create_new(one.path("f")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            failed += u32::from(file.set_permissions(mode).is_err());
            fs::remove_file(other.path("d/f")).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, 0, "files that had lost their names");
}

#[test]
fn limits_of_names_and_folders_have_their_errno() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let errno = |outcome: std::io::Result<()>| outcome.unwrap_err().raw_os_error().unwrap();
    let (long, longest) = (mount.path(&"n".repeat(256)), mount.path(&"n".repeat(255)));
    fs::write(&longest, "x").unwrap();
    let refused = [
        fs::write(&long, "x"),
        fs::create_dir(&long),
        fs::rename(&longest, &long),
        fs::hard_link(&longest, &long),
        std::os::unix::fs::symlink("x", &long),
        fs::metadata(&long).map(drop),
    ];
    for (number, outcome) in refused.into_iter().enumerate() {
        assert_eq!(errno(outcome), libc::ENAMETOOLONG, "{number}");
    }
    fs::create_dir_all(mount.path("a/b")).unwrap();
    assert_eq!(errno(fs::rename(mount.path("a"), mount.path("a/b/c"))), libc::EINVAL);
    assert_eq!(errno(fs::remove_dir(mount.path("a"))), libc::ENOTEMPTY);
    assert_eq!(errno(fs::rename(mount.path("a/b"), &longest)), libc::ENOTDIR);
    assert_eq!(errno(fs::rename(&longest, mount.path("a/b"))), libc::EISDIR);
    std::os::unix::fs::symlink("loop", mount.path("loop")).unwrap();
    assert_eq!(errno(fs::read(mount.path("loop/x")).map(drop)), libc::ELOOP);
    assert_eq!(errno(fs::write(longest.join("x"), "")), libc::ENOTDIR);
    mount.umount();
}
