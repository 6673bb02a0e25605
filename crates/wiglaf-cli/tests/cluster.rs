//! Real clusters come and go: what nodes share and what not, and what is left.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use common::{Said, Site, eventually, why_not};

#[test]
fn up_is_idempotent_and_refuses_another_shape() {
    let Some(site) = Site::up(&["--nodes", "3", "--mtu", "9000"]) else { return };
    let again = site.wiglaf(&["up", "--nodes", "3", "--mtu", "9000"]).expect_success();
    assert!(again.stdout.contains("is up already"), "{again:?}");
    site.wiglaf(&["up", "--nodes", "2"]).expect_sentence(1, "run `wiglaf down` first");
    site.wiglaf(&["status"]).expect_success();
    assert_eq!(site.sh("node3", "cat /sys/class/net/eth0/mtu").trim(), "9000");
    site.wiglaf(&["down"]).expect_success();
    assert_eq!(site.wiglaf(&["status"]).status, Some(3));
    assert!(site.wiglaf(&["down"]).expect_success().stdout.contains("no cluster was up"));
}

#[test]
fn nodes_share_no_memory_and_no_namespace() {
    let Some(site) = Site::up(&[]) else { return };
    site.sh(
        "node1",
        "echo secret > /dev/shm/wiglaf-test && ipcmk -M 4096 && ipcmk -Q && ipcmk -S 1",
    );
    assert_eq!(site.sh("node1", "ls /dev/shm").trim(), "wiglaf-test");
    assert_eq!(site.sh("node2", "ls /dev/shm").trim(), "");
    let count = "cat /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | grep -vc key || true";
    assert_eq!(site.sh("node1", count).trim(), "3");
    assert_eq!(site.sh("node2", count).trim(), "0");
    assert!(!fs::exists("/dev/shm/wiglaf-test").unwrap());

    for namespace in ["ipc", "mnt", "net", "pid", "uts"] {
        let link = format!("/proc/self/ns/{namespace}");
        let read = format!("readlink {link}");
        let here = fs::read_link(&link).unwrap().display().to_string();
        let all = [here, site.sh("node1", &read), site.sh("node2", &read)];
        let distinct: std::collections::BTreeSet<_> = all.iter().map(|s| s.trim()).collect();
        assert_eq!(distinct.len(), 3, "{namespace}: {all:?}");
    }
}

#[test]
fn scratch_is_private_and_the_working_folder_is_shared() {
    let Some(site) = Site::up(&[]) else { return };
    for folder in ["/var/tmp", "/tmp", "/etc", "/usr/local"] {
        let file = format!("{folder}/wiglaf-test-{}", std::process::id());
        site.sh("node1", &format!("hostname > {file}"));
        assert_eq!(site.sh("node1", &format!("cat {file}")).trim(), "node1");
        site.sh("node2", &format!("test ! -e {file}"));
        assert!(!fs::exists(&file).unwrap(), "{file} is on the machine itself");
    }
    fs::write(site.work().join("from-here"), "1").unwrap();
    assert_eq!(site.sh("node1", "cat from-here; pwd"), format!("1{}\n", site.work().display()));
    site.sh("node1", "echo 2 > from-node1");
    assert_eq!(site.sh("node2", "cat from-node1"), "2\n");
    assert_eq!(fs::read_to_string(site.work().join("from-node1")).unwrap(), "2\n");
}

#[test]
fn nodes_know_each_other_and_nobody_else() {
    let Some(site) = Site::up(&["--nodes", "pc[08-10]"]) else { return };
    assert_eq!(site.sh("pc09", "hostname; cat /etc/hostname"), "pc09\npc09\n");
    let ping = site.sh("pc08", "getent hosts pc10 && ip -o neigh flush all; ip -o route");
    assert!(ping.contains("10.77.0.3"), "{ping}");
    assert_eq!(site.sh("pc08", "ip -o route | wc -l").trim(), "1");
    site.sh("pc08", "! ip route get 192.0.2.1 2>/dev/null");
    assert_eq!(site.sh("pc08", "ls -x /sys/class/net").split_whitespace().count(), 2);
    // What was sent from one node arrives at another.
    let mut listener = site
        .command(&["exec", "-w", "pc10", "--", "perl", "-MIO::Socket", "-e", LISTEN])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "listening");
    let send = "IO::Socket::INET->new(Proto=>'udp',PeerAddr=>'pc10:7701')->send(\"hello\\n\")";
    site.wiglaf(&["exec", "-w", "pc08", "--", "perl", "-MIO::Socket", "-e", send]).expect_success();
    assert_eq!(lines.next().unwrap().unwrap(), "hello");
    assert!(listener.wait().unwrap().success());
}

/// Opens UDP port 7701, says so, and prints one datagram.
const LISTEN: &str = "$| = 1; my $s = IO::Socket::INET->new(Proto=>'udp',LocalPort=>7701) or die; \
                      print \"listening\\n\"; $s->recv(my $b, 99); print $b;";

#[test]
fn ports_of_the_switch_are_shaped() {
    let Some(site) = Site::new().with_file("rate = '1gbit'\n[node.node2]\nrate = '100mbit'\n")
    else {
        return;
    };
    let qdiscs = site.sh("switch", "tc qdisc show");
    assert!(qdiscs.contains("dev port1") && qdiscs.contains("rate 1Gbit"), "{qdiscs}");
    assert!(qdiscs.contains("dev port2") && qdiscs.contains("rate 100Mbit"), "{qdiscs}");
}

impl Site {
    /// Brings up what a cluster file says.
    fn with_file(self, text: &str) -> Option<Self> {
        if let Some(reason) = why_not() {
            eprintln!("skipped: {reason}");
            return None;
        }
        fs::write(self.work().join("wiglaf.toml"), text).unwrap();
        // As root has it after `su`, on some systems: without the folders of root's own tools.
        let mut up = self.command(&["up", "--file", "wiglaf.toml"]);
        Said::from(up.env("PATH", "/usr/bin:/bin").output().unwrap()).expect_success();
        Some(self)
    }
}

#[test]
fn a_link_to_where_the_scratch_folder_is_leads_to_nowhere_on_the_machine() {
    let site = Site::new();
    let (real, link) = (site.work().join("real"), site.work().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let Some(site) = site.with_file(&format!("scratch = '{}/new'\n", link.display())) else {
        return;
    };
    let own = link.join("new").display().to_string();
    let kind = format!("stat -c %a {own}; stat -f -c %T {own}");
    let mut exec = site.command(&["exec", "-w", "node1", "--", "sh", "-c", &kind]);
    // Not where the links are: that folder would be the machine's then.
    let said: common::Said = exec.current_dir("/").output().unwrap().into();
    assert_eq!(said.stdout, "1777\ntmpfs\n", "{said:?}");
    assert!(fs::read_dir(&real).unwrap().next().is_none(), "it was made on the machine");
}

/// Root's mounts land where they are said to, and not where a user of the node has turned them.
#[test]
fn a_link_that_a_user_has_planted_on_a_node_moves_no_mount() {
    let Some(site) = Site::up(&[]) else { return };
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (top, bin) = (dir.path().display(), dir.path().join("bin"));
    fs::create_dir(&bin).unwrap();
    fs::copy("/bin/true", bin.join("program")).unwrap();
    let program = bin.join("program");
    let run = || {
        let program = program.to_str().unwrap();
        site.wiglaf(&["run", "--nodes", "node1", "--mpi", "none", "--", program])
    };
    let plant = |target: &str, uid: u32| {
        let link = format!("rm -rf {top}; ln -s {target} {top}; chown -h {uid} {top}");
        site.sh("node1", &link);
    };
    plant("/usr", 65534);
    run().expect_sentence(1, "is a link of user 65534; remove it there");
    site.sh("node1", "test -x /usr/bin/env && test ! -e /usr/bin/program");
    // What root has put there leads on.
    site.sh("node1", "mkdir /opt/of-root");
    plant("/opt/of-root", 0);
    run().expect_success();
    site.sh("node1", "test -x /opt/of-root/bin/program");
}

#[test]
fn a_direct_wire_has_no_switch() {
    let Some(site) = Site::up(&["--wire", "direct"]) else { return };
    let arping = "IO::Socket::INET->new(Proto=>'tcp',PeerAddr=>'10.77.0.2:9') or print $!";
    let answer =
        site.wiglaf(&["exec", "-w", "node1", "--", "perl", "-MIO::Socket", "-e", arping]).stdout;
    assert_eq!(answer, "Connection refused", "node2 did not answer");
    site.wiglaf(&["exec", "-w", "switch", "--", "true"]).expect_sentence(1, "no node switch");
}

#[test]
fn each_node_keeps_to_its_core_unless_told_otherwise() {
    let cores = thread::available_parallelism().unwrap().get();
    let allowed = "grep Cpus_allowed_list /proc/self/status | cut -f2";
    let Some(site) = Site::up(&[]) else { return };
    let pinned = [site.sh("node1", allowed), site.sh("node2", allowed)];
    assert!(pinned.iter().all(|list| list.trim().parse::<usize>().is_ok()), "{pinned:?}");
    assert_eq!(pinned[0] == pinned[1], cores == 1);
    drop(site);
    let Some(site) = Site::up(&["--no-pin"]) else { return };
    let count = site.sh("node1", "nproc");
    assert_eq!(count.trim(), cores.to_string());
}

#[test]
fn down_leaves_nothing() {
    let Some(site) = Site::up(&[]) else { return };
    let mut sleeper = site.command(&["exec", "--", "sleep", "1000"]).spawn().unwrap();
    eventually("a command runs on each node", || site.strays() == 2);
    site.sh("node1", "setsid sleep 1000 >/dev/null 2>&1 & echo started");
    let namespaces: Vec<String> = ["net", "mnt", "ipc", "uts", "pid"]
        .iter()
        .flat_map(|kind| ["node1", "node2", "switch"].map(|node| (kind, node)))
        .map(|(kind, node)| site.sh(node, &format!("readlink /proc/1/ns/{kind}")).trim().to_owned())
        .collect();
    assert!(!site.inits().is_empty());

    site.wiglaf(&["down"]).expect_success();
    assert!(!sleeper.wait().unwrap().success());
    assert!(!site.state().exists());
    let state = site.state().display().to_string();
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&state));
    // Killed and awaited; reaping them is the business of the machine's init.
    eventually("all inits are gone", || site.inits().is_empty());
    eventually("all namespaces are gone", || {
        let left = open_namespaces();
        namespaces.iter().all(|ns| !left.contains(ns))
    });
}

/// The process of a node's init, or the switch's.
fn init_of(site: &Site, which: &str) -> String {
    let record = fs::read_to_string(site.state().join("cluster.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let init = if which == "switch" { &record["switch"] } else { &record["nodes"][0] };
    init["pid"].to_string()
}

#[test]
fn what_is_left_of_a_cluster_is_not_replaced_by_one_of_another_shape() {
    let Some(site) = Site::up(&["--nodes", "3"]) else { return };
    let kill = |which: &str| {
        assert!(
            Command::new("kill").args(["-9", &init_of(&site, which)]).status().unwrap().success()
        );
    };
    kill("node1");
    eventually("it is seen", || site.wiglaf(&["status"]).status == Some(3));
    let refused = site.wiglaf(&["up", "--nodes", "2"]);
    refused.expect_sentence(1, "a part of a cluster of another shape is up");
    assert_eq!(site.sh("node3", "hostname"), "node3\n", "it lives");
    site.wiglaf(&["up", "--nodes", "3"]).expect_success();
    assert_eq!(site.sh("node1", "hostname"), "node1\n");

    // Without its switch it is not up, either.
    site.wiglaf(&["status"]).expect_success();
    kill("switch");
    eventually("it is seen", || site.wiglaf(&["status"]).status == Some(3));
    assert!(site.wiglaf(&["status"]).stderr.contains("the cluster's switch is gone"));
    let up = site.wiglaf(&["up"]).expect_success();
    assert!(up.stdout.contains("the remains"), "no node has a wire: {up:?}");
    assert_eq!(site.sh("node3", "hostname"), "node3\n", "as many as there were");
    assert!(site.wiglaf(&["up"]).expect_success().stdout.contains("is up already"));
}

/// What a background job of a shell script ignores is not to be ignored by all later commands.
#[test]
fn a_cluster_does_not_ignore_what_whoever_brought_it_up_did() {
    let site = Site::new();
    if let Some(reason) = why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    let script = format!("trap '' INT QUIT HUP TERM; exec {exe} up");
    let mut up = site.started_by(Command::new("sh"), &["-c", &script]);
    let said: common::Said = up.output().unwrap().into();
    said.expect_success();
    let ignored = site.sh("node1", "grep -E 'SigIgn|SigBlk' /proc/self/status | cut -f2");
    for set in ignored.lines() {
        // Further signals are the C library's own.
        assert_eq!(u64::from_str_radix(set, 16).unwrap() & 0x7fff_ffff, 0, "{ignored}");
    }
}

/// The namespaces that any process is in.
fn open_namespaces() -> std::collections::BTreeSet<String> {
    let links = fs::read_dir("/proc").unwrap().flatten().flat_map(|e| {
        let dir = fs::read_dir(e.path().join("ns")).into_iter().flatten().flatten();
        dir.filter_map(|ns| Some(fs::read_link(ns.path()).ok()?.display().to_string()))
            .collect::<Vec<_>>()
    });
    links.collect()
}

#[test]
fn a_killed_up_leaves_nothing_that_down_does_not_remove() {
    if let Some(reason) = why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    // At many points from its beginning to beyond its end: where exactly it is hit does not matter,
    // and neither does it that the machine is now faster, now slower.
    let site = Site::new();
    let began = Instant::now();
    site.wiglaf(&["up", "--nodes", "4"]).expect_success();
    let whole = began.elapsed();
    site.wiglaf(&["down"]).expect_success();
    for point in 0..14 {
        let delay = whole * 12 * point / (10 * 13);
        let site = Site::new();
        let mut up = site.command(&["up", "--nodes", "4"]).stdout(Stdio::null()).spawn().unwrap();
        thread::sleep(delay);
        let _ = up.kill();
        up.wait().unwrap();
        if point % 2 == 0 {
            site.wiglaf(&["up", "--nodes", "2"]).and_maybe(&site);
        }
        site.wiglaf(&["down"]).expect_success();
        assert!(!site.state().exists(), "killed after {delay:?} of {whole:?}");
        eventually("all inits are gone", || site.inits().is_empty());
    }
}

impl common::Said {
    /// After a kill, `up` works, unless the killed one had come to its end.
    fn and_maybe(self, site: &Site) {
        if self.status == Some(0) {
            assert_eq!(site.sh("node2", "hostname"), "node2\n");
        } else {
            self.expect_sentence(1, "run `wiglaf down` first");
        }
    }
}

/// The others keep their jobs and their disks.
#[test]
fn a_dead_node_is_seen_and_up_starts_it_anew() {
    for shape in [&["--nodes", "3", "--rate", "1gbit"][..], &["--wire", "direct"]] {
        let Some(site) = Site::up(shape) else { return };
        site.sh("node2", "echo mine >/scratch/kept; echo its >/dev/shm/kept");
        let mut job = site.command(&[
            "exec",
            "-w",
            "node2",
            "--",
            "sh",
            "-c",
            "read line; cat /scratch/kept",
        ]);
        let mut job = job.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        site.sh("node1", "touch /scratch/lost");
        if shape.contains(&"--nodes") {
            site.wiglaf(&["fault", "set", "--drop", "50%"]).expect_success();
        }
        site.kill_node(0);
        site.wiglaf(&["exec", "--", "true"]).expect_sentence(1, "node1 is not up");
        // Also where it is not said again how many nodes there are.
        let up = site.wiglaf(&["up"]).expect_success();
        assert!(up.stdout.contains("node1, which had died, was started anew"), "{up:?}");
        assert_eq!(site.sh("node1", "ls /scratch; hostname"), "node1\n");
        assert_eq!(site.sh("node2", "cat /dev/shm/kept"), "its\n");
        if shape.contains(&"--nodes") {
            let shown = site.wiglaf(&["fault", "show"]).expect_success().stdout;
            let is_faulty =
                |node: &str| shown.lines().any(|l| l.starts_with(node) && l.contains("50%"));
            assert!(!is_faulty("node1") && is_faulty("node2"), "{shown}");
            site.wiglaf(&["fault", "clear"]).expect_success();
        }
        for (from, to) in [("node1", "node2"), ("node2", "node1")] {
            site.sh(from, &format!("ping -c 1 -W 5 {to} >/dev/null"));
        }
        job.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        let output = job.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "mine\n");
        let again = site.wiglaf(&[&["up"], shape].concat()).expect_success();
        assert!(again.stdout.contains("is up already"), "{again:?}");
    }
}

#[test]
fn users_run_as_themselves_and_cannot_bring_clusters_up() {
    let Some(site) = Site::up(&[]) else { return };
    // The build folder may lie where others cannot read.
    let exe = site.work().join("wiglaf");
    fs::copy(env!("CARGO_BIN_EXE_wiglaf"), &exe).unwrap();
    fs::set_permissions(&exe, fs::Permissions::from_mode(0o755)).unwrap();
    let as_nobody = |args: &[&str]| -> common::Said {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&exe)
            .args(args);
        command.env("WIGLAF_STATE", site.state()).current_dir("/tmp").output().unwrap().into()
    };
    let said = as_nobody(&["exec", "-w", "node2", "--", "sh", "-c", "id -u; id -G; hostname"]);
    assert_eq!(said.expect_success().stdout, "65534\n65534\nnode2\n");
    as_nobody(&["down"]).expect_sentence(1, "needs root");
    as_nobody(&["--name", "other", "up"]).expect_sentence(1, "needs root");
    site.wiglaf(&["status"]).expect_success();
}

#[test]
fn a_command_on_one_node_has_the_users_terminal() {
    let Some(site) = Site::up(&[]) else { return };
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    // `script` plays the terminal; the shell must be the terminal's leader.
    let inner = "stty size; ps -o tty=,stat= -p $$; hostname; exit 4";
    let outer = format!("stty rows 33 cols 77; {exe} exec -w node2 -- sh -c '{inner}'");
    let mut script = site.started_by(Command::new("script"), &["-qec", &outer, "/dev/null"]);
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Held open: `script` would type the end of its input into the terminal.
    let keys = script.stdin.take();
    let output = script.wait_with_output().unwrap();
    drop(keys);
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert_eq!((lines[0], lines[2]), ("33 77", "node2"), "{text}");
    assert!(lines[1].starts_with("pts/") && lines[1].contains('s'), "{text}");
}

#[test]
fn exec_gathers_labels_and_reports() {
    let Some(site) = Site::up(&["--nodes", "3"]) else { return };
    let same = site.wiglaf(&["exec", "--", "echo", "hello"]).expect_success();
    let rule = "---------------";
    assert_eq!(same.stdout, format!("{rule}\nnode[1-3]\n{rule}\nhello\n"));

    let labelled = site.wiglaf(&["exec", "-L", "--", "hostname"]).expect_success();
    let mut lines: Vec<&str> = labelled.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["node1: node1", "node2: node2", "node3: node3"]);

    let script = "case $(hostname) in node2) exit 7;; node3) kill -9 $$;; esac";
    let failed = site.wiglaf(&["exec", "--", "sh", "-c", script]);
    assert_eq!(failed.status, Some(137), "{failed:?}");
    assert!(failed.stderr.contains("node2: exit status 7"), "{failed:?}");
    assert!(failed.stderr.contains("node3: ended by signal 9"), "{failed:?}");

    let json =
        site.wiglaf(&["exec", "--json", "-w", "node[1,3]", "--", "hostname"]).expect_success();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json[1]["node"], "node3");
    assert_eq!(json[1]["stdout"], "node3\n");

    site.wiglaf(&["exec", "-w", "node1", "--", "no-such-program"])
        .expect_sentence(127, "node1: there is no program `no-such-program`");
    site.wiglaf(&["exec", "-w", "node9", "--", "true"]).expect_sentence(1, "has no node node9");
    let one = site.wiglaf(&["exec", "-w", "node2", "--", "sh", "-c", "hostname; exit 3"]);
    assert_eq!((one.status, one.stdout.as_str()), (Some(3), "node2\n"));
}

#[test]
fn root_believes_no_state_folder_that_others_could_have_written() {
    let Some(site) = Site::up(&[]) else { return };
    let file = site.state().join("cluster.json");
    let text = fs::read_to_string(&file).unwrap();
    site.wiglaf(&["down"]).expect_success();
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", sleep.id())).unwrap();
    let start: u64 =
        stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    record["switch"] = serde_json::json!({ "pid": sleep.id(), "start_ticks": start });
    record["nodes"] = serde_json::json!([record["switch"], record["switch"]]);
    fs::create_dir(site.state()).unwrap();
    fs::write(&file, record.to_string()).unwrap();
    let nobody = Some(65_534);
    let mode = |mode| fs::set_permissions(site.state(), fs::Permissions::from_mode(mode)).unwrap();
    // Another's folder, and one that is root's and that others can write.
    std::os::unix::fs::chown(site.state(), nobody, nobody).unwrap();
    site.wiglaf(&["down"]).expect_sentence(1, "is not believed");
    std::os::unix::fs::chown(site.state(), Some(0), Some(0)).unwrap();
    mode(0o775);
    site.wiglaf(&["down"]).expect_sentence(1, "is not believed");
    site.wiglaf(&["up"]).expect_sentence(1, "is not believed");
    site.wiglaf(&["exec", "--", "true"]).expect_sentence(1, "is not believed");
    assert!(sleep.try_wait().unwrap().is_none(), "it was ended");
    // What it says is right, so that root's own is believed.
    mode(0o755);
    site.wiglaf(&["down"]).expect_success();
    eventually("it is ended", || sleep.try_wait().unwrap().is_some());
}

/// The kernel's table of neighbours is one for all namespaces, and datagrams to those that it has no room for vanish.
#[test]
fn forty_nodes_reach_each_other_all_at_once() {
    let Some(site) = Site::up(&["--nodes", "40"]) else { return };
    let reach = "for my $i (1..40) { IO::Socket::INET->new(Proto=>'tcp',PeerAddr=>\"10.77.0.$i:9\",Timeout=>0.9) \
                 or $! =~ /refused/ or print \"lost $i\\n\" } print \"done\\n\"";
    let output = site.wiglaf(&["exec", "-L", "--", "perl", "-MIO::Socket", "-e", reach]);
    assert_eq!(output.stdout.lines().filter(|line| line.ends_with("done")).count(), 40);
    assert!(!output.stdout.contains("lost"), "{}", output.stdout);
    output.expect_success();
}
