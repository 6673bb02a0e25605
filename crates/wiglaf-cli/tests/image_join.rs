//! PCs that `wiglaf image serve` has installed join by themselves: stand-ins with their own cards and ssh host keys, where
//! nobody has compared a fingerprint. What the installer tells the server, the test tells it.

mod common;

use std::path::Path;

use common::eventually;
use common::hosts::sentence;
use wiglaf_testhosts::{Host, Hosts, Plan, Running};

const FILE: &str = "/home/ann/.config/wiglaf/cluster.toml";
/// As much of an image as is looked at: the mark of a GPT, and the name of the first partition.
const IMAGE: &str = "mkdir -p /srv/image && cd /srv/image && truncate -s 2M node.img && printf 'EFI PART' | \
    dd of=node.img bs=1 seek=512 conv=notrunc status=none && printf 'w\\0i\\0g\\0l\\0a\\0f\\0-\\0b\\0i\\0o\\0s\\0' | \
    dd of=node.img bs=1 seek=1080 conv=notrunc status=none && touch node.vmlinuz node.initrd && \
    mkdir -p /usr/lib/ipxe && touch /usr/lib/ipxe/undionly.kpxe /usr/lib/ipxe/snponly.efi";
const SERVE: &str =
    "sudo wiglaf --file ~/.config/wiglaf/cluster.toml image serve --image /srv/image/node.img";

/// The card in the data network.
fn mac(host: &Host) -> String {
    let line =
        "cat /sys/class/net/$(ip -o -4 addr show to 192.168.77.0/24 | cut -d' ' -f2)/address";
    host.as_root().run(line).ok().trim().to_owned()
}

fn key(host: &Host) -> String {
    let text = host.read("/etc/ssh/ssh_host_ed25519_key.pub");
    text.split(' ').nth(1).expect("a key").trim().to_owned()
}

/// What the server answers a PC, with its status.
fn ask(host: &Host, method: &str, path: &str) -> String {
    let line =
        format!("curl -s -m 20 -X {method} -w ' %{{http_code}}' 'http://192.168.77.1:8077{path}'");
    host.as_root().run(&line).stdout
}

fn is_in(hosts: &Hosts, name: &str) -> bool {
    hosts[0].read(FILE).contains(&format!("[node.{name}]"))
}

fn serve(hosts: &Hosts) -> Running {
    let mut serving = hosts[0].as_user("ann").start(SERVE);
    assert!(serving.has_printed("on "), "{:?}", serving.so_far());
    eventually("the server listens", || ask(&hosts[1], "GET", "/").ends_with(" 404"));
    serving
}

/// Hosts whose ssh host keys nobody knows. The first has Wiglaf, a cluster file of ann's with that behind it, and an image.
fn hosts(count: usize, further: &str) -> Option<Hosts> {
    let mut plan = Plan::new(count).with_sudo();
    plan.known_hosts = false;
    let hosts = Hosts::or_skip(&plan)?;
    let tree = hosts.install_tree().expect("a release build");
    hosts[0].install(&tree).expect("room on pc1");
    let _ = hosts[0].as_root().run(IMAGE).ok();
    let _ = hosts[0].as_user("ann").run("wiglaf init --network 192.168.77.0/24 --name lab").ok();
    let text = hosts[0].read(FILE) + further;
    hosts[0].write(FILE, text, "ann", 0o644);
    Some(hosts)
}

/// Admits a host with a disk and its address.
fn admit(hosts: &Hosts, host: &Host) {
    let (mac, name) = (mac(host), host.name());
    let number = name.trim_start_matches("pc");
    let line = format!(
        "wiglaf image admit {mac} {name} --serial WD-{number} --address 192.168.77.{number}"
    );
    let _ = hosts[0].as_user("ann").run(&line).ok();
}

#[test]
fn installed_pc_joins_by_itself_and_nobody_else_does() {
    let Some(hosts) = hosts(4, "") else { return };
    let ann = hosts[0].as_user("ann");
    admit(&hosts, &hosts[1]);
    admit(&hosts, &hosts[2]);
    // Without a key that is known, nobody is talked to.
    let by_hand = ann.run("wiglaf join pc2 --yes");
    assert!(sentence(&by_hand).contains("pc2"), "{by_hand}");

    let mut serving = serve(&hosts);
    assert!(ask(&hosts[1], "GET", "/job").contains("WD-2"));
    // Who is not admitted is not installed, and tells no key.
    assert!(ask(&hosts[3], "GET", "/job").ends_with(" 403"));
    assert!(ask(&hosts[3], "POST", &format!("/done?{}", key(&hosts[3]))).ends_with(" 403"));
    // What is no key is not taken for one.
    assert!(ask(&hosts[1], "POST", "/done?ssh-rsa").ends_with(" 400"));
    // Another one than that which answers at pc3's address.
    assert!(ask(&hosts[2], "POST", &format!("/done?{}", key(&hosts[3]))).ends_with(" 200"));
    assert!(ask(&hosts[1], "POST", &format!("/done?{}", key(&hosts[1]))).ends_with(" 200"));
    // Once is all: nobody else takes its place afterwards.
    assert!(ask(&hosts[1], "POST", &format!("/done?{}", key(&hosts[3]))).ends_with(" 404"));
    eventually("pc2 joins", || serving.so_far()[1].contains("pc2: has joined"));
    let anothers = "pc3: who answers at 192.168.77.3 has another ssh host key";
    eventually("pc3 is refused", || serving.so_far()[1].contains(anothers));
    let said = &serving.so_far()[1];
    assert!(said.contains("is not admitted; if it is yours"), "{said}");
    assert!(is_in(&hosts, "pc2") && !is_in(&hosts, "pc3") && !is_in(&hosts, "pc4"));
    let there = ann.run("wiglaf exec -w pc2 -- hostname");
    assert!(there.ok().contains("pc2"), "{there}");
    // Whoever is admitted meanwhile is served, each time by a daemon that knows it.
    let daemon = "pgrep -x dnsmasq; cat /run/wiglaf-image-*/admitted";
    let before = hosts[0].as_root().run(daemon);
    admit(&hosts, &hosts[3]);
    eventually("pc4 is served", || ask(&hosts[3], "GET", "/job").contains("WD-4"));
    eventually("another daemon knows it", || {
        let now = hosts[0].as_root().run(daemon).stdout;
        now.contains(&mac(&hosts[3])) && now.lines().next() != before.stdout.lines().next()
    });
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(serving.is_running(), "{:?}", serving.so_far());
    serving.interrupt();
    let _ = serving.wait();

    // The next server knows who has not joined yet. Installed once more, it does.
    let waiting = hosts[0].read("/srv/image/node.joining");
    assert!(waiting.contains("pc3") && !waiting.contains("pc2"), "{waiting}");
    let serving = hosts[0].as_user("ann").start(&format!("{SERVE} --again pc3"));
    eventually("the server listens", || ask(&hosts[2], "GET", "/job").contains("WD-3"));
    assert!(ask(&hosts[2], "POST", &format!("/done?{}", key(&hosts[2]))).ends_with(" 200"));
    eventually("pc3 joins", || serving.so_far()[1].contains("pc3: has joined"));
    assert!(is_in(&hosts, "pc3"));
    serving.interrupt();
    let _ = serving.wait();
}

#[test]
fn installed_pc_is_idle_in_slurm_where_batch_jobs_were_set_up() {
    for program in ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"] {
        if !Path::new(program).exists() {
            return eprintln!("skipped: {program} is not installed (`cargo xtask packages test`)");
        }
    }
    let Some(hosts) = hosts(2, "\n[batch]\naccounting = false\n") else { return };
    for host in hosts.iter() {
        let _ = host.as_root().run("rm -f /etc/munge/munge.key").ok();
    }
    // The other has the key that its image has made.
    let script = include_str!("../../wiglaf-image/share/first-boot.sh");
    let begin = script.find("if [ -x /usr/sbin/mungekey ]").unwrap();
    let end = begin + script[begin..].find("\nfi\n").unwrap() + 4;
    let _ = hosts[1].as_root().run(&script[begin..end]).ok();
    let made = hosts[1].as_root().run("sha256sum /etc/munge/munge.key").ok().to_owned();
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf batch setup --yes").ok();
    admit(&hosts, &hosts[1]);
    let serving = serve(&hosts);
    assert!(ask(&hosts[1], "POST", &format!("/done?{}", key(&hosts[1]))).ends_with(" 200"));
    eventually("pc2 takes jobs", || {
        let said = &serving.so_far()[1];
        assert!(!said.contains("takes no batch jobs"), "{said}");
        said.contains("pc2: has joined, and takes batch jobs")
    });
    eventually("pc2 is idle", || ann.run("sinfo -h -n pc2 -o %T").stdout.trim() == "idle");
    assert_ne!(hosts[1].as_root().run("sha256sum /etc/munge/munge.key").ok(), made);
    serving.interrupt();
    let _ = serving.wait();
}
