//! Mounts on a node, of another node's folder: what they do crosses the wire. And those of ordinary users.

use std::process::Command;

use super::{Place, site};
use crate::common::eventually;

/// Where node1 has it.
const AT: &str = "/tmp/m";
const ANN: &str = "61001";

impl Place {
    fn mounts_on_node1(&self) {
        let mount = format!("mkdir {AT}; wiglaf mount --background node2:/scratch {AT}");
        assert!(self.sh("node1", &mount).contains("is mounted on"));
    }

    /// A script on that node as Ann, whom both nodes know, whether or not it succeeds.
    fn as_ann(&self, node: &str, script: &str) -> String {
        self.sh_as(node, ANN, &format!("cd /tmp/ann && {{ {script}\n}}"))
    }
}

/// Lists the files below a folder with their sums, but for a repository of git.
fn sums(dir: &str) -> String {
    format!("cd {dir}; find . -type f ! -path './r/*' | sort | xargs sha256sum")
}

#[test]
fn programs_work_across_a_wire_that_loses_frames() {
    let Some(site) = site() else { return };
    site.mounts_on_node1();
    site.wiglaf(&["fault", "set", "--drop", "1%"]).expect_success();
    site.sh("node1", "mkdir -p /tmp/tree/a/b; head -c 3000000 /dev/urandom > /tmp/tree/a/big");
    site.sh(
        "node1",
        "cd /tmp/tree; seq 20000 > a/b/lines; ln -s b/lines a/link; ln a/big a/b/other",
    );
    site.sh(
        "node1",
        &format!("cd /tmp; tar -cf - -C tree . | tar -xpf - -C {AT}; diff -r tree {AT}"),
    );
    assert_eq!(site.sh("node2", &sums("/scratch")), site.sh("node1", &sums("/tmp/tree")));
    let found = site.sh("node1", &format!("grep -rlx 12345 {AT}/a/b"));
    assert_eq!(found.trim(), format!("{AT}/a/b/lines"));
    if Command::new("git").arg("--version").output().is_ok() {
        let git = "git -c user.name=n -c user.email=e@x -c safe.directory='*'";
        let script = format!(
            "cd {AT}; {git} init -q r; cd r; seq 1000 > f; {git} add f; {git} commit -qm 1; {git} gc -q; \
             {git} fsck --full; {git} status --short"
        );
        assert_eq!(site.sh("node1", &script), "");
        // Whole on the disk that it lies on, too.
        assert_eq!(
            site.sh("node2", &format!("cd /scratch/r; {git} fsck --full; {git} status --short")),
            ""
        );
    } else {
        println!("skipped: its part with git, which is not installed");
    }
    assert!(["node1", "node2"].iter().all(|node| site.faults(node, "from", "dropped") > 0));
    site.sh("node1", &format!("wiglaf umount {AT}"));
}

#[test]
fn a_mount_outlives_a_link_that_flaps() {
    let Some(site) = site() else { return };
    site.mounts_on_node1();
    let copies = format!(
        "head -c 5000000 /dev/urandom > /dev/shm/f; cd {AT}; \
         until [ -e /tmp/enough ]; do cp /dev/shm/f f; cmp /dev/shm/f f; rm f; cp /dev/shm/f f; done"
    );
    let mut copying =
        site.command(&["exec", "-w", "node1", "--", "sh", "-ec", &copies]).spawn().unwrap();
    eventually("it copies", || !site.sh("node2", "ls /scratch").is_empty());
    for _ in 0..5 {
        site.wiglaf(&["fault", "set", "node2", "--down"]).expect_success();
        std::thread::sleep(std::time::Duration::from_millis(50));
        site.wiglaf(&["fault", "clear"]).expect_success();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(copying.try_wait().unwrap().is_none(), "it has ended before it was told to");
    site.sh("node1", "touch /tmp/enough");
    assert!(copying.wait().unwrap().success());
    assert_eq!(
        site.sh("node2", "sha256sum < /scratch/f"),
        site.sh("node1", "sha256sum < /dev/shm/f")
    );
    site.sh("node1", &format!("wiglaf umount {AT}"));
}

#[test]
fn ordinary_users_mount_with_their_own_rights() {
    let Some(site) = site() else { return };
    if Command::new("fusermount3").arg("-V").output().is_err() {
        eprintln!("skipped: fusermount3 is not installed (fuse3)");
        return;
    }
    for node in ["node1", "node2"] {
        site.sh(node, &format!("echo 'ann:x:{ANN}:{ANN}::/tmp/ann:/bin/sh' >> /etc/passwd"));
        site.sh(node, &format!("mkdir -p /tmp/ann/m; chown -R {ANN}:{ANN} /tmp/ann"));
    }
    site.sh("node2", "umask 077; echo secret > /scratch/roots; mkdir /scratch/closed");
    // As distributions have it by a rule of udev's; here it may be root's alone.
    let open_to_all =
        "mknod /run/fuse c 10 229; chmod 666 /run/fuse; mount --bind /run/fuse /dev/fuse";
    site.sh("node1", open_to_all);

    let mount = "wiglaf mount --background node2:/scratch m";
    assert_eq!(site.as_ann("node1", mount), "node2:/scratch is mounted on m\n");
    assert_eq!(
        site.as_ann("node1", "echo hers > m/f; cat m/f; stat -c %u m/f"),
        format!("hers\n{ANN}\n")
    );
    assert_eq!(site.sh("node2", "stat -c %u /scratch/f; cat /scratch/f"), format!("{ANN}\nhers\n"));
    let refused = site.as_ann("node1", "cat m/roots; echo x > m/closed/f; cat m/f");
    assert!(
        refused.matches("Permission denied").count() == 2 && refused.ends_with("hers\n"),
        "{refused}"
    );
    // The scratch folder is everybody's, and sticky.
    site.sh("node2", "echo x > /scratch/open; chmod 666 /scratch/open");
    let sticky = site.as_ann("node1", "echo hers >> m/open && mv m/open m/o; rm -f m/open");
    assert_eq!(sticky.matches("Operation not permitted").count(), 2, "{sticky}");
    let serves = "for p in $(pgrep -f '^[^ ]*wiglaf serve-files'); do stat -c %u /proc/$p; done";
    assert_eq!(site.sh("node2", serves).trim(), ANN);
    // Also root has nothing of what is mounted, and a folder of root's is not for her.
    assert!(site.sh("node1", "ls /tmp/ann/m 2>&1 || true").contains("Permission denied"));
    let elsewhere = site.as_ann("node1", "wiglaf mount --background node2:/scratch /srv");
    assert!(
        elsewhere.contains("cannot mount on /srv: ") && elsewhere.contains("write access"),
        "{elsewhere}"
    );

    let busy = site.as_ann("node1", "cd m; wiglaf umount /tmp/ann/m");
    assert!(busy.contains("/tmp/ann/m is in use"), "{busy}");
    assert_eq!(site.as_ann("node1", "wiglaf umount m; ls m"), "");
    let processes = || site.as_ann("node1", "pgrep -u ann -x wiglaf");
    eventually("its process ends", || processes().is_empty());

    // One whose process was killed is mounted again, or taken away, by its owner; root asks nothing of it.
    assert_eq!(site.as_ann("node1", mount), "node2:/scratch is mounted on m\n");
    site.sh("node1", "pkill -9 -u ann -x wiglaf");
    eventually("it is dead", || site.as_ann("node1", "ls m").contains("not connected"));
    assert_eq!(site.as_ann("node1", mount), "node2:/scratch is mounted on m\n");
    site.sh("node1", "pkill -9 -u ann -x wiglaf");
    eventually("it is dead", || site.as_ann("node1", "ls m").contains("not connected"));
    let reset = site.wiglaf(&["reset"]).expect_success();
    assert!(!reset.stdout.contains("unmounted"), "{reset:?}");
    assert_eq!(site.as_ann("node1", "wiglaf umount m; ls m"), "");
}
