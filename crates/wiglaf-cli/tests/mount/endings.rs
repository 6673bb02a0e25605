//! Servers that die, and every way to end a mount.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Guarded, Said, eventually, processes_with};
use crate::{Mount, sh, site};

/// Ends the file servers of a node.
const KILL_SERVER: &str = "kill -9 $(pgrep -x -f '/usr/bin/wiglaf serve-files')";

#[test]
fn a_dead_server_is_an_error_and_the_mount_ends() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    fs::write(mount.path("f"), "kept").unwrap();
    let mut open = fs::File::open(mount.path("f")).unwrap();
    site.sh("node2", KILL_SERVER);
    // EIO for what was under way, ENOTCONN when the connection has ended.
    let is_over = |error: std::io::Error| {
        assert!([5, 103, 107].contains(&error.raw_os_error().unwrap()), "{error}");
    };
    is_over(fs::read(mount.path("f")).unwrap_err());
    is_over(open.read(&mut [0; 4]).unwrap_err());
    drop(open);
    assert_eq!(mount.process.wait().unwrap().code(), Some(1));
    // Nothing is written below it meanwhile.
    is_over(fs::write(mount.path("g"), "lost").unwrap_err());
    assert_eq!(site.sh("node2", "cd /scratch; cat *"), "kept");
    let mut again = Mount::new(&site, "node2:/scratch", &[]);
    assert_eq!(fs::read_to_string(again.path("f")).unwrap(), "kept");

    // Its own death, and the broom.
    site.sh("node2", "kill -9 $(pgrep -f '[w]iglaf mount --connected')");
    assert!(!again.process.wait().unwrap().success());
    is_over(fs::read_dir(&again.dir).map(drop).unwrap_err());
    is_over(fs::write(again.path("g"), "lost").unwrap_err());
    let said = site.wiglaf(&["reset"]).expect_success().stdout;
    let _ = said;
    assert_eq!(fs::read_dir(&again.dir).unwrap().count(), 0);

    for (what, why) in [
        ("node2:/etc", "the path is in no folder that its node exports"),
        ("node2:/scratch/no", "No such file or directory"),
        ("node2:/scratch/f", "it is not a folder"),
        ("node9:/scratch", "the cluster `default` has no node node9"),
        ("node2", "is not NODE:/PATH"),
    ] {
        let said = site.wiglaf(&["mount", what, again.dir.to_str().unwrap()]);
        said.expect_sentence(1, why);
    }
    let refused = site.wiglaf(&["umount", again.dir.to_str().unwrap()]);
    refused.expect_sentence(1, "nothing of Wiglaf's is mounted on");
    eventually("no server is left", || site.strays() == 0);
    assert!(processes_with(&again.dir).is_empty());
}

/// Who serves it must not look at it before.
#[test]
fn a_folder_that_one_is_in_is_mounted_on() {
    let Some(site) = site() else { return };
    let dir = site.work().join("here");
    fs::create_dir(&dir).unwrap();
    // Bounds how long a broken test hangs.
    let mut bounded = Command::new("timeout");
    bounded.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_wiglaf")]);
    let mount = ["mount", "--background", "node2:/scratch", "."];
    let output = site.started_by(bounded, &mount).current_dir(&dir).output().unwrap();
    Said::from(output).expect_success();
    fs::write(dir.join("f"), "f").unwrap();
    assert_eq!(site.sh("node2", "cat /scratch/f"), "f");
    // By another name.
    let link = site.work().join("link");
    std::os::unix::fs::symlink("here", &link).unwrap();
    let again = site.wiglaf(&["mount", "node2:/scratch", link.to_str().unwrap()]);
    again.expect_sentence(1, "something is mounted on");
    site.wiglaf(&["umount", link.to_str().unwrap()]).expect_success();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    eventually("its process has ended", || processes_with(&dir).is_empty());
}

#[test]
fn every_way_to_end_a_mount_ends_it() {
    let Some(site) = site() else { return };
    let is_empty = |dir: &Path| fs::read_dir(dir).unwrap().count() == 0;
    // A signal.
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    fs::write(mount.path("f"), "f").unwrap();
    sh(&site.work(), &format!("kill -INT {}", mount.process.id()));
    assert!(mount.process.wait().unwrap().success());
    assert!(is_empty(&mount.dir));
    // The usual command, also where there is only umount(8).
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    let dir = mount.dir.to_str().unwrap();
    sh(
        &site.work(),
        &format!("if which fusermount3; then fusermount3 -u {dir}; else umount {dir}; fi"),
    );
    assert!(mount.process.wait().unwrap().success());
    // In the background, with a copy of the mount in another namespace.
    let said = site.wiglaf(&["mount", "--background", "node2:/scratch", dir]).expect_success();
    assert!(said.stdout.contains("is mounted on"), "{said:?}");
    let mut copy = Command::new("unshare").args(["-m", "sleep", "60"]).spawn().unwrap();
    eventually("the copy is made", || {
        let table = format!("/proc/{}/mountinfo", copy.id());
        fs::read_link(format!("/proc/{}/ns/mnt", copy.id())).ok()
            != fs::read_link("/proc/self/ns/mnt").ok()
            && fs::read_to_string(table).is_ok_and(|table| table.contains(dir))
    });
    let again = site.wiglaf(&["mount", "node2:/scratch", dir]);
    again.expect_sentence(1, "something is mounted on");
    site.wiglaf(&["umount", dir]).expect_success();
    eventually("its process has ended", || processes_with(&mount.dir).is_empty());
    copy.kill().unwrap();
    copy.wait().unwrap();
    // With the cluster.
    site.wiglaf(&["mount", "--background", "node2:/scratch", dir]).expect_success();
    site.wiglaf(&["down"]).expect_success();
    assert!(is_empty(&mount.dir));
    eventually("its process has ended", || processes_with(&mount.dir).is_empty());
}

#[test]
fn two_writers_and_a_server_that_dies_under_one() {
    let Some(site) = site() else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    // Each line is whole, though both append.
    let append =
        "i=0; while [ $i -lt 300 ]; do echo \"$0 $i of three hundred\"; i=$((i+1)); done >> log";
    let here = Command::new("sh").args(["-c", append, "here"]).current_dir(&mount.dir).spawn();
    let there = format!("cd /scratch; sh -c '{append}' there");
    site.sh("node2", &there);
    assert!(here.unwrap().wait().unwrap().success());
    let log = fs::read_to_string(mount.path("log")).unwrap();
    for who in ["here", "there"] {
        let own: Vec<_> = log.lines().filter(|line| line.starts_with(who)).collect();
        let wanted = (0..300).map(|i| format!("{who} {i} of three hundred"));
        assert!(own.iter().copied().eq(wanted), "{own:?}");
    }
    assert_eq!(log.lines().count(), 600);

    // What was on disk stays, and what was said to be written; the write that was under way is an error.
    const SYNCED: usize = 3 << 20;
    const LEN: usize = 1 << 20;
    const PLACES: usize = 16;
    let mut file = fs::File::create(mount.path("big")).unwrap();
    file.write_all(&[b'a'; SYNCED]).unwrap();
    file.sync_all().unwrap();
    let turns = AtomicUsize::new(0);
    let (said, under_way, why) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut said = vec![b'a'; SYNCED + PLACES * LEN];
            loop {
                let turn = turns.load(Ordering::Relaxed);
                let value = b'b' + (turn % 20) as u8;
                // It goes round, so that the disk is not filled.
                let mut at = SYNCED + turn % PLACES * LEN;
                let end = at + LEN;
                while at < end {
                    match file.write_at(&vec![value; end - at], at as u64) {
                        Ok(count) => {
                            said[at..at + count].fill(value);
                            at += count;
                        }
                        Err(why) => return (said, (at..end, value), why.raw_os_error()),
                    }
                }
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        eventually("it goes round", || turns.load(Ordering::Relaxed) > PLACES + 2);
        site.sh("node2", KILL_SERVER);
        writer.join().unwrap()
    });
    assert!([5, 103, 107].contains(&why.unwrap()), "{why:?}");
    drop(file);
    assert_eq!(mount.process.wait().unwrap().code(), Some(1));
    let again = Mount::new(&site, "node2:/scratch", &[]);
    let there = fs::read(again.path("big")).unwrap();
    assert_eq!(there.len(), said.len());
    let (range, value) = under_way;
    let is_right = |at: usize| there[at] == said[at] || range.contains(&at) && there[at] == value;
    assert_eq!((0..said.len()).find(|at| !is_right(*at)), None, "{range:?} was under way");
}

/// How to come there may change, and what is seen there.
#[test]
fn a_mount_that_is_moved_or_covered_goes_on() {
    let Some(site) = site() else { return };
    let above = |name: &str| site.work().join(name);
    fs::create_dir(above("a")).unwrap();
    let mut mount = Mount::on(&site, "node2:/scratch", above("a/m"), &[]);
    fs::write(mount.path("f"), "kept").unwrap();
    fs::rename(above("a"), above("b")).unwrap();
    mount.dir = above("b/m");
    let dir = mount.dir.display();
    sh(&site.work(), &format!("mount -t tmpfs none {dir}; touch {dir}/cover"));
    // The table of mounts is looked at each second at the latest.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    // A signal takes nothing of others away.
    sh(
        &site.work(),
        &format!("kill -INT {}; sleep 0.5; ls {dir}/cover; umount {dir}", mount.process.id()),
    );
    assert_eq!(mount.process.try_wait().unwrap(), None);
    assert_eq!(fs::read_to_string(mount.path("f")).unwrap(), "kept");
    sh(&site.work(), &format!("kill -INT {}", mount.process.id()));
    assert!(mount.process.wait().unwrap().success());
    assert_eq!(fs::read_dir(&mount.dir).unwrap().count(), 0);
}

/// On a node, where who serves a mount has it in sight.
#[test]
fn what_was_mounted_before_stays() {
    let Some(site) = site() else { return };
    site.sh("node1", "mkdir /tmp/m; mount -t tmpfs none /tmp/m; touch /tmp/m/before");
    for way in [
        "umount /tmp/m",
        "wiglaf umount /tmp/m",
        "pkill -INT -x -f 'wiglaf mount node2:/scratch /tmp/m'",
    ]
    .repeat(4)
    {
        let args = ["exec", "-w", "node1", "--", "wiglaf", "mount", "node2:/scratch", "/tmp/m"];
        let mut serving = Guarded(site.command(&args).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "node2:/scratch is mounted on /tmp/m\n");
        site.sh("node1", way);
        assert!(serving.0.wait().unwrap().success());
        assert_eq!(site.sh("node1", "ls /tmp/m"), "before\n", "{way}");
    }
}
