//! Calls that few programs make, and mounts that lead back to each other.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Guarded, Site};
use crate::{Mount, site};

/// tests/mount/calls.c, compiled, or nothing where there is no compiler.
fn calls(site: &Site) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mount/calls.c");
    let program = site.work().join("calls");
    match Command::new("cc").arg("-o").arg(&program).arg(source).status() {
        Ok(status) => assert!(status.success(), "calls.c does not compile"),
        Err(why) => {
            println!("skipped: no C compiler ({why})");
            return None;
        }
    }
    Some(program)
}

/// What the program says of a file.
#[track_caller]
fn said(program: &Path, what: &str, file: &Path) -> String {
    let out = Command::new(program).arg(what).arg(file).output().unwrap();
    assert!(out.status.success(), "{what}: {out:?}");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn what_one_call_appends_is_in_its_order_also_when_it_does_not_wait() {
    let Some(site) = site() else { return };
    let Some(program) = calls(&site) else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    assert_eq!(said(&program, "append", &mount.path("f")), "8388608\n".repeat(8));
    let content = fs::read(mount.path("f")).unwrap();
    assert_eq!(content.len(), 64 << 20);
    let order: Vec<_> =
        content.chunks(1 << 20).map(|part| (part[0], part[part.len() - 1])).collect();
    let wanted = (0..64).map(|part| b'a' + part % 8).map(|letter| (letter, letter));
    assert!(order.iter().copied().eq(wanted), "{order:?}");
    mount.umount();
}

#[test]
fn a_write_that_asks_for_the_disk_gets_there() {
    let Some(site) = site() else { return };
    let Some(program) = calls(&site) else { return };
    // A file that can be written, and says EINVAL to who wants it on disk.
    site.sh("node2", "touch /scratch/f; mount --bind /proc/sys/kernel/domainname /scratch/f");
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    // Opened so it is written so, which is the file system's own business.
    assert_eq!(said(&program, "sync", &mount.path("f")), "1 -22 -22\n1 1 -22\n1 1 1\n");
    mount.umount();
}

#[test]
fn a_file_without_a_name_has_its_file_systems_space() {
    let Some(site) = site() else { return };
    let Some(program) = calls(&site) else { return };
    let mut mount = Mount::new(&site, "node2:/scratch", &[]);
    assert_eq!(said(&program, "allocate", &mount.path("f")), "100000\n");
    let files = ["own", "theirs"].map(|name| fs::File::create_new(mount.path(name)).unwrap());
    fs::remove_file(mount.path("own")).unwrap();
    site.sh("node2", "rm /scratch/theirs");
    let whole = rustix::fs::statfs(&mount.dir).unwrap().f_blocks;
    for file in &files {
        assert_eq!(rustix::fs::fstatfs(file).unwrap().f_blocks, whole);
    }
    drop(files);
    mount.umount();
}

/// A server that asks itself would wait for its own answer.
#[test]
fn mounts_that_lead_back_to_each_other_are_not_entered() {
    let Some(site) = site() else { return };
    site.sh("node1", "mkdir /scratch/two; echo one > /scratch/f");
    let script = "cd /scratch; mkdir m one t; echo two > f; mount -t tmpfs none t; mkdir t/d; \
                  echo t > t/d/f; touch g; mount --bind t/d/f g; ln -s d t/link";
    site.sh("node2", script);
    let mounts = [
        ("node2", "node2:/scratch", "/scratch/m"),
        ("node2", "node1:/scratch", "/scratch/one"),
        ("node1", "node2:/scratch", "/scratch/two"),
    ];
    let mounts = mounts.map(|(node, from, at)| {
        let args = ["exec", "-w", node, "--", "wiglaf", "mount", from, at];
        let mut serving = Guarded(site.command(&args).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("{from} is mounted on {at}\n"));
        (node, at, serving)
    });
    // Killed where it hangs, so that the test ends.
    let limited =
        |node: &str, script: &str| site.sh(node, &format!("timeout -s KILL 20 sh -c '{script}'"));
    let listed = limited("node2", "cd /scratch/m; ls; cat f t/d/f g one/f 2>&1 || echo no");
    let (names, rest) = listed.split_once("two\n").expect("its own file");
    assert_eq!(names, "f\ng\nm\none\nt\n");
    assert!(rest.starts_with("t\nt\n") && rest.ends_with("cross-device link\nno\n"), "{rest}");
    let refused =
        "ls m m/f one 2>&1 | grep -c cross-device; touch m/new one/new 2>/dev/null || echo no";
    assert_eq!(limited("node2", &format!("cd /scratch/m; {refused}")), "3\nno\n");
    assert_eq!(
        limited("node1", "cat /scratch/two/f /scratch/two/one/f 2>/dev/null || echo no"),
        "two\nno\n"
    );
    // Other file systems below the folder are worked on as before.
    let script = "cd /scratch/m/t; echo new > d/new; cat d/new; mkdir x; mv d/new x; rm -r x; ls; readlink link";
    assert_eq!(limited("node2", script), "new\nd\nlink\nd\n");
    assert_eq!(
        limited("node1", "find /scratch | sort | grep -v new | tail -n 3 || echo no")
            .lines()
            .count(),
        3
    );
    for (node, at, mut serving) in mounts {
        site.sh(node, &format!("wiglaf umount {at}"));
        assert!(serving.0.wait().unwrap().success());
    }
}
