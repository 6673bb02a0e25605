//! `wiglaf power` on stand-in hosts: clean shutdowns over ssh, magic packets on a wire, and what is refused.

use std::time::Duration;

use wiglaf_testhosts::{Host, Hosts, Plan, Running, User};

/// The MAC address of pc2 as the cluster file has it, and as a magic packet repeats it.
const MAC: &str = "02:00:5e:10:20:30";
const MAC_HEX: &str = "02005e102030";
/// What the host's systemd would do: it takes root, and notes what was asked. The machine is then the test's.
const SYSTEMCTL: &str = "#!/bin/sh\n[ $(id -u) = 0 ] || exit 1\necho \"$*\" > /run/asked\n";

/// Hosts of ann, who may use sudo, and of bob, of which pc1 has Wiglaf and ann's cluster file.
fn hosts(power: &str) -> Option<Hosts> {
    let mut plan = Plan::new(3).with_sudo();
    plan.users.push(User::new("bob", 2002));
    let hosts = Hosts::or_skip(&plan)?;
    hosts.install().expect("a release build");
    let mut file = "nodes = \"pc[1-3]\"\n[network]\ndata = \"192.168.77.0/24\"\n".to_owned();
    for number in 1..=3 {
        file += &format!("[node.pc{number}]\naddress = \"192.168.77.{number}\"\npower = {power}\n");
    }
    hosts[0].write("/home/ann/.config/wiglaf/cluster.toml", file, "ann", 0o644);
    for host in hosts.iter() {
        host.write("/usr/local/bin/systemctl", SYSTEMCTL, "root", 0o755);
        // What would be tried next, and is this machine's.
        for other in ["shutdown", "poweroff"] {
            host.write(&format!("/usr/local/bin/{other}"), "#!/bin/sh\nexit 1\n", "root", 0o755);
        }
    }
    Some(hosts)
}

fn asked(host: &Host) -> String {
    host.as_root().run("cat /run/asked 2>/dev/null || true").ok().trim().to_owned()
}

/// Waits until the command has ended, or that is so.
fn wait_for(job: &mut Running, is_so: impl Fn() -> bool) -> bool {
    loop {
        let is_running = job.is_running();
        if is_so() {
            return true;
        }
        if !is_running {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn host_shuts_down_over_ssh_and_who_may_not_is_told() {
    let Some(hosts) = hosts("{ kind = \"ssh\" }") else { return };
    let ann = hosts[0].as_user("ann");
    assert_eq!(ann.run("wiglaf power status").ok(), "pc[1-3]: on\n");
    let mut off = ann.start("wiglaf power off -w pc2");
    assert!(wait_for(&mut off, || asked(&hosts[1]) == "poweroff"), "{}", off.wait());
    assert!(off.is_running(), "it must not be believed before it is seen");
    hosts[1].power_off();
    let off = off.wait();
    assert_eq!(off.ok(), "pc2: does not answer (clean shutdown over ssh)\n");
    let on = ann.run("wiglaf power on -w pc2");
    assert!(on.complaint().contains("pc2: nothing can turn it on"), "{on}");
    let cycle = ann.run("wiglaf power cycle -w pc3");
    assert!(cycle.complaint().contains("nothing could turn it on again"), "{cycle}");
    let _ = hosts[2].as_root().run("rm /etc/sudoers.d/ann").ok();
    let refused = ann.run("wiglaf power off -w pc3");
    assert!(refused.complaint().contains("pc3: it cannot be shut down over ssh"), "{refused}");
    assert_eq!(asked(&hosts[2]), "");
    let log = ann.run("cat .local/state/wiglaf/power/log");
    assert!(log.ok().contains("ann on pc1: power off -w pc2"), "{log}");
}

#[test]
fn power_stays_on_under_the_jobs_of_others_and_the_hands_of_who_sits_there() {
    let Some(hosts) = hosts("{ kind = \"ssh\" }") else { return };
    let ann = hosts[0].as_user("ann");
    let here = ann.run("wiglaf power off -w pc1");
    assert!(here.complaint().contains("it is the machine you sit at"), "{here}");
    let bob = hosts[1].as_user("bob");
    let mut job = bob.start("mpirun --oversubscribe -n 2 sh -c 'echo started; exec sleep 1000'");
    assert!(job.has_printed("started"));
    for action in ["off", "reset"] {
        let refused = ann.run(&format!("wiglaf power {action} -w pc2"));
        let said = refused.complaint();
        assert!(said.contains("pc2: a job of another user runs there (bob)"), "{refused}");
    }
    assert_eq!((asked(&hosts[0]), asked(&hosts[1])), (String::new(), String::new()));
    // One's own job is one's own affair.
    drop(job);
    let own = hosts[1].as_user("ann");
    let mut own = own.start("mpirun --oversubscribe -n 1 sh -c 'echo started; exec sleep 1000'");
    assert!(own.has_printed("started"));
    let mut off = ann.start("wiglaf power off -w pc2 --shutdown-wait 1");
    assert!(wait_for(&mut off, || asked(&hosts[1]) == "poweroff"), "{}", off.wait());
    let off = off.wait();
    assert!(off.complaint().contains("pc2: it is not off after 1 s"), "{off}");
    drop(own);
    // Alive, and it lets nobody in who could look.
    let _ = hosts[2].as_root().run("mv /home/ann/.ssh/authorized_keys /root/").ok();
    let closed = ann.run("wiglaf power off -w pc3");
    assert!(closed.complaint().contains("pc3: it is alive, but cannot be asked"), "{closed}");
    let _ = hosts[2].as_root().run("mv /root/authorized_keys /home/ann/.ssh/").ok();
    let bob = hosts[2].as_user("bob");
    let mut job = bob.start("mpirun --oversubscribe -n 1 sh -c 'echo started; exec sleep 1000'");
    assert!(job.has_printed("started"));
    let mut forced = ann.start("wiglaf power off -w pc3 --force");
    assert!(wait_for(&mut forced, || asked(&hosts[2]) == "poweroff"), "{}", forced.wait());
    hosts[2].power_off();
    assert!(forced.wait().ok().starts_with("pc3: does not answer"));
}

/// Listens for magic packets on an interface.
fn listen(host: &Host, interface: &str) -> Running {
    let line = format!(
        "tcpdump -i {interface} -U -w /tmp/{interface}.pcap 'ether proto 0x0842 or udp port 9' 2>&1"
    );
    let mut capture = host.as_root().start(&line);
    assert!(capture.has_printed("listening on"));
    capture
}

/// The frames seen so far, each in hexadecimal.
fn frames(host: &Host, interface: &str) -> Vec<String> {
    let line = format!("tcpdump -r /tmp/{interface}.pcap -xx -nn 2>/dev/null");
    let mut frames: Vec<String> = Vec::new();
    for line in host.as_root().run(&line).ok().lines() {
        match line.trim().strip_prefix("0x").and_then(|line| line.split_once(':')) {
            Some((_, hex)) => {
                let hex: String = hex.chars().filter(char::is_ascii_hexdigit).collect();
                frames.last_mut().unwrap().push_str(&hex);
            }
            None => frames.push(String::new()),
        }
    }
    frames
}

#[test]
fn magic_packets_leave_on_the_data_network_alone_and_wake_the_host() {
    let power = format!("{{ kind = \"wake-on-lan\", mac = \"{MAC}\" }}");
    let Some(hosts) = hosts(&power) else { return };
    let [data, admin] =
        [&hosts[2].plan().data, &hosts[2].plan().admin].map(|port| port.interface.clone());
    hosts[1].power_off();
    let captures = [listen(&hosts[2], &data), listen(&hosts[2], &admin)];
    let magic = format!("ffffffffffff{}", MAC_HEX.repeat(16));
    let is_frame =
        |frame: &&String| frame.starts_with("ffffffffffff") && frame[24..].starts_with("0842");
    let count = |frames: &[String]| {
        assert!(frames.iter().all(|frame| frame.contains(&magic)), "{frames:?}");
        (frames.iter().filter(is_frame).count(), frames.iter().filter(|f| !is_frame(f)).count())
    };

    // An ordinary user without the helper.
    let ann = hosts[0].as_user("ann");
    let woken = ann.run("wiglaf power wake -w pc2");
    let udp =
        "pc2: does not answer (magic packets by UDP only: Ethernet takes root or the helper)\n";
    assert_eq!(woken.ok(), udp);
    assert_eq!(count(&frames(&hosts[2], &data)), (0, 3));

    // Root, and the host comes up when it sees one.
    let file = "--file /home/ann/.config/wiglaf/cluster.toml";
    let root = hosts[0].as_root().run(&format!("wiglaf power wake -w pc2 {file}"));
    assert_eq!(root.ok(), "pc2: does not answer (magic packets by Ethernet and UDP)\n");
    let seen = frames(&hosts[2], &data);
    assert_eq!(count(&seen), (3, 6), "{seen:?}");
    let own =
        hosts[0].as_root().run("cat /sys/class/net/enp3s0/address").ok().trim().replace(':', "");
    let frame = seen.iter().find(is_frame).unwrap();
    assert!(frame.starts_with(&format!("ffffffffffff{own}0842{magic}")), "{frame}");

    let mut on = ann.start("wiglaf power on -w pc2");
    assert!(wait_for(&mut on, || frames(&hosts[2], &data).len() > 9), "{}", on.wait());
    hosts[1].power_on().unwrap();
    let on = on.wait();
    assert!(on.ok().starts_with("pc2: on (magic packets by UDP only"), "{on}");
    assert_eq!(frames(&hosts[2], &admin), [""; 0]);
    drop(captures);
}
