//! Stand-in hosts are hosts: they have their own of everything, reach each other by ssh, and leave nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wiglaf_testhosts::{Cable, Firewall, Hosts, Network, Plan, User};

#[test]
fn user_reaches_every_host_by_ssh_over_both_networks() {
    let Some(hosts) = Hosts::or_skip(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    for (name, address) in [("pc2", "192.168.77.2"), ("pc3", "192.168.77.3"), ("pc3", "10.9.0.3")] {
        let line =
            format!("ssh -oBatchMode=yes {address} 'hostname; whoami; echo $SSH_CONNECTION'");
        let output = ann.run(&line);
        let (seen, connection) = output.ok().rsplit_once("ann\n").unwrap();
        assert_eq!(seen.trim(), name);
        assert!(connection.contains(&format!(" {address} 22")), "{output}");
    }
    // By name, the data network is meant.
    let output =
        ann.run("ssh -oBatchMode=yes pc2 ssh -oBatchMode=yes pc3 'echo \\$SSH_CONNECTION'");
    assert!(output.ok().starts_with("192.168.77.2 "), "{output}");
    assert!(ann.run("sudo -n true").complaint().contains("password"));
    let runtime = "test -O $XDG_RUNTIME_DIR && stat -c %a $XDG_RUNTIME_DIR";
    assert_eq!(ann.run(runtime).ok(), "700\n");
    assert_eq!(ann.run(&format!("ssh -oBatchMode=yes pc2 '{runtime}'")).ok(), "700\n");
    // Neither files nor processes are the other's or the machine's.
    let _ = ann.run("touch here /tmp/here /dev/shm/here; ls here").ok();
    let bystander = hosts[0].as_user("ann").start("sleep 1234");
    let other = hosts[1].as_user("ann");
    for path in ["here", "/tmp/here", "/dev/shm/here", env!("CARGO_MANIFEST_DIR")] {
        assert!(other.run(&format!("ls {path}")).complaint().contains("No such file"));
    }
    assert_eq!(other.run("pgrep -f 'sleep 123[4]' || echo none").ok(), "none\n");
    assert_eq!(ann.run("pgrep -c -x sleep").ok(), "1\n");
    drop(bystander);
    assert_eq!(ann.run("pgrep -c -x sleep || true").ok(), "0\n");
}

#[test]
fn disk_survives_power_failure_and_processes_do_not() {
    let Some(hosts) = Hosts::or_skip(&Plan::new(2).with_sudo()) else { return };
    let ann = hosts[0].as_user("ann");
    let _ =
        ann.run("ssh -oBatchMode=yes pc2 'echo kept > kept; sudo touch /etc/kept /tmp/lost'").ok();
    let mut job = ann.start("ssh -oBatchMode=yes pc2 'echo started; sleep 1000'");
    assert!(job.has_printed("started"));
    hosts[1].power_off();
    assert!(hosts[1].pid().is_none());
    // Nobody has said goodbye.
    assert!(job.is_running());
    assert!(!ann.run("ping -c 1 -W 1 192.168.77.2").status.success());
    hosts[1].power_on().unwrap();
    assert_eq!(
        ann.run("ssh -oBatchMode=yes pc2 'cat kept; ls /etc/kept'").ok(),
        "kept\n/etc/kept\n"
    );
    assert!(!hosts[1].as_user("ann").run("ls /tmp/lost").status.success());
    job.interrupt();
    assert!(!job.wait().status.success());
}

#[test]
fn cables_mtu_and_firewall_stop_what_they_should() {
    let mut plan = Plan::new(2);
    plan.hosts[0].data.mtu = 9000;
    let Some(hosts) = Hosts::or_skip(&plan) else { return };
    let root = hosts[0].as_root();
    let reaches = |what: &str| root.run(&format!("ping -c 1 -W 1 {what}")).status.success();
    assert!(reaches("192.168.77.2") && reaches("10.9.0.2"));
    assert!(!reaches("-M do -s 4000 192.168.77.2"));
    hosts[1].set_mtu(Network::Data, 9000);
    assert!(reaches("-M do -s 4000 192.168.77.2"));

    let carrier = || hosts[1].read("/sys/class/net/eno1/carrier");
    hosts[1].set_cable(Network::Data, Cable::Out);
    assert_eq!(carrier(), "0\n");
    assert!(!reaches("192.168.77.2") && reaches("10.9.0.2"));
    hosts[1].set_cable(Network::Data, Cable::Silent);
    assert_eq!(carrier(), "1\n");
    assert!(!reaches("192.168.77.2"));
    hosts[1].cut();
    assert!(!reaches("10.9.0.2"));
    hosts[1].restore();
    assert!(reaches("192.168.77.2") && reaches("10.9.0.2"));

    match hosts[1].firewall(&Firewall::OnlySsh) {
        Err(why) => eprintln!("skipped: no packet filter: {why}"),
        Ok(()) => {
            assert!(!reaches("192.168.77.2"));
            let _ = hosts[0].as_user("ann").run("ssh -oBatchMode=yes pc2 true").ok();
            hosts[1].firewall(&Firewall::Ports(47000..=47999)).unwrap();
            assert!(reaches("192.168.77.2"));
            hosts[1].firewall(&Firewall::Off).unwrap();
        }
    }
}

#[test]
fn plan_without_keys_admin_network_and_own_homes_is_followed() {
    let mut plan = Plan::new(2).without_admin();
    plan.known_hosts = false;
    plan.shared.push(PathBuf::from("/home/ann/shared"));
    plan.users[0].uid_on.insert(1, 2300);
    plan.users.push(User { authorized: false, ..User::new("bob", 2002) });
    plan.hosts[1].services.push("echo \"it's $(hostname)\" > /run/service; sleep 1000".to_owned());
    let Some(hosts) = Hosts::or_skip(&plan) else { return };
    let ann = hosts[0].as_user("ann");
    let refused = ann.run("ssh -oBatchMode=yes pc2 true");
    assert!(refused.complaint().contains("Host key verification failed"), "{refused}");
    let line = "ssh -oBatchMode=yes -oStrictHostKeyChecking=accept-new pc2 id -u";
    assert_eq!(ann.run(line).ok(), "2300\n");
    let refused = hosts[0].as_user("bob").run(line);
    assert!(refused.complaint().contains("Permission denied"), "{refused}");
    let _ = ann.run("echo common > shared/file").ok();
    assert_eq!(hosts[1].read("/home/ann/shared/file"), "common\n");
    assert_eq!(hosts[1].read("/run/service"), "it's pc2\n");
    assert!(!ann.run("ping -c 1 -W 1 10.9.0.2").status.success());
    assert_eq!(ann.env("COLOUR", "a b").input("in").run("echo $COLOUR; cat").ok(), "a b\nin");
}

/// What the test below starts, and kills.
#[test]
#[ignore = "is started by the next test"]
fn brings_hosts_up_and_waits() {
    let hosts = Hosts::up(&Plan::new(2)).unwrap();
    let pids: Vec<_> = hosts.iter().filter_map(wiglaf_testhosts::Host::pid).collect();
    println!("\nup {} {} {}", hosts.folder().display(), pids[0], pids[1]);
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn nothing_is_left_of_hosts_that_were_dropped_or_whose_test_was_killed() {
    let Some(hosts) = Hosts::or_skip(&Plan::new(2)) else { return };
    let folder = hosts.folder().to_owned();
    let pids: Vec<_> = hosts.iter().filter_map(wiglaf_testhosts::Host::pid).collect();
    let _running = hosts[0].as_user("ann").run("setsid sleep 1000 >/dev/null 2>&1 &");
    assert!(folder.exists() && pids.iter().all(|pid| is_ours(*pid, &folder)));
    drop(hosts);
    assert!(!folder.exists());
    assert!(!pids.iter().any(|pid| is_ours(*pid, &folder)));

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "brings_hosts_up_and_waits", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let line = lines.find_map(|line| Some(line.ok()?.strip_prefix("up ")?.to_owned())).unwrap();
    let mut words = line.split(' ');
    let folder = PathBuf::from(words.next().unwrap());
    let pids: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_ours(*pid, &folder)));
    child.kill().unwrap();
    child.wait().unwrap();
    // It ends as soon as the kernel and the keeper have come to it.
    while folder.exists() || pids.iter().any(|pid| is_ours(*pid, &folder)) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    assert!(
        !names.map(|name| name.file_name()).any(|name| name.to_string_lossy().starts_with("pc"))
    );
}

/// Whether that process is the first of one of these hosts.
fn is_ours(pid: u32, folder: &Path) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy())
}
