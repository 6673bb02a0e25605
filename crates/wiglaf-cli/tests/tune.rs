//! `wiglaf tune` on stand-in hosts, by an ordinary user, through a real helper. Their cables have nothing to tune,
//! so the card that is tuned is a tap: one setting. Others are tried on guests: `cargo xtask guests tune`.

use std::fs::File;
use std::time::Duration;

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use wiglaf_netlink::{Card, Coalesce, Ethtool};
use wiglaf_testhosts::{Host, Hosts, Plan, Running};

const POLICY: &str = "[[admit]]\nusers = [\"ann\"]\nlinks = [\"packet\"]\n\
                      tune = [\"192.168.77.0/24\", \"192.168.79.0/24\"]\n";
/// What the tap is set to before.
const FRAMES: u32 = 9;

/// Two hosts, of which the first has Wiglaf and ann's cluster file.
fn hosts() -> Option<Hosts> {
    let hosts = Hosts::or_skip(&Plan::new(2))?;
    let tree = hosts.install_tree().expect("a release build");
    hosts[0].install(&tree).expect("room on pc1");
    let _ = hosts[0].as_user("ann").run("wiglaf init --network 192.168.77.0/24").ok();
    Some(hosts)
}

/// Does something in a host's network.
fn within<T: Send>(host: &Host, action: impl FnOnce() -> T + Send) -> T {
    let network = File::open(format!("/proc/{}/ns/net", host.pid().unwrap())).unwrap();
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            action()
        });
        there.join().unwrap()
    })
}

/// A card with one setting, and a helper that may change it.
fn give_card(host: &Host) -> (Card, Running) {
    let made = "ip tuntap add tap0 mode tap && ip address add 192.168.79.1/24 dev tap0 && \
                ip link set tap0 up && cat /sys/class/net/tap0/ifindex || ip -o link show tap0";
    let shown = host.as_root().run(made).ok().to_owned();
    let index = shown.trim().split(':').next().unwrap().trim().parse().unwrap();
    let card = Card { index, name: "tap0".to_owned() };
    let values = Coalesce { rx_frames: Some(FRAMES), ..Coalesce::default() };
    within(host, || Ethtool::open().unwrap().set_coalesce(&card, &values)).unwrap();
    host.write("/etc/wiglaf/helper.toml", POLICY, "root", 0o644);
    (card, helper(host))
}

fn helper(host: &Host) -> Running {
    let mut helper = host.as_root().start("exec wiglaf-helper 2>&1");
    assert!(helper.has_printed("listening"));
    helper
}

fn frames(host: &Host, card: &Card) -> u32 {
    within(host, || Ethtool::open().unwrap().coalesce(card)).unwrap().rx_frames.unwrap()
}

/// Hosts of which the second is in the cluster.
fn joined_hosts() -> Option<Hosts> {
    let hosts = hosts()?;
    hosts[1].install(&hosts.install_tree().unwrap()).unwrap();
    let joined =
        "sed -i 's/\"pc1\"/\"pc[1-2]\"/' .config/wiglaf/cluster.toml; wiglaf exec -- hostname";
    assert!(hosts[0].as_user("ann").run(joined).ok().contains("pc2"));
    Some(hosts)
}

fn wait(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn user_tunes_a_host_sees_it_and_has_everything_back() {
    let Some(hosts) = joined_hosts() else { return };
    let ann = hosts[0].as_user("ann");
    let (card, helper) = give_card(&hosts[1]);

    let dry = ann.run("wiglaf tune -w pc2 --dry-run");
    assert!(dry.ok().starts_with("pc2: "), "{dry}");
    assert_eq!(frames(&hosts[1], &card), FRAMES, "nothing was changed");
    let tuned = ann.run("wiglaf tune -w pc2");
    assert!(tuned.ok().starts_with("pc2: tap0 rx-frames 9 -> 1"), "{tuned}");
    let absent = "wiglaf: data of pc2 has no interrupt moderation setting\n"
        .replace("data", &hosts[1].plan().data.interface);
    assert!(tuned.stderr.contains(&absent), "{tuned}");
    assert_eq!(frames(&hosts[1], &card), 1);
    let status = ann.run("wiglaf status");
    let who = "pc2 is tuned by ann until `wiglaf tune --undo`: tap0 rx-frames 9 -> 1";
    assert!(status.ok().contains(who), "{status}");
    let json = ann.run("wiglaf tune -w pc2 --dry-run --json");
    assert!(json.ok().contains("\"ann until `wiglaf tune --undo`\""), "{json}");
    // The helper comes and goes; what was kept stays.
    helper.signal(Signal::KILL);
    let _ = helper.wait();
    let helper = self::helper(&hosts[1]);
    assert_eq!(frames(&hosts[1], &card), 1);
    let undone = ann.run("wiglaf tune --undo -w pc2");
    assert_eq!((undone.ok(), frames(&hosts[1], &card)), ("pc2: as it was\n", FRAMES));

    // Where there is no helper, or one that does not admit the user, it says what to do.
    let absent = ann.run("wiglaf tune -w pc1");
    let said = absent.complaint();
    assert!(said.contains("pc1 is not tuned: no wiglaf-helper runs there"), "{absent}");
    assert_eq!(ann.run("wiglaf tune --undo -w pc1").ok().lines().count(), 1);
    let measured = ann.run("wiglaf tune --measure --link-stays");
    let line = "pc1 and pc2: a message back to back takes ";
    assert!(measured.stdout.contains(line), "{measured}");
    assert_eq!((measured.status.code(), frames(&hosts[1], &card)), (Some(1), 1), "{measured}");
    let _ = ann.run("wiglaf tune --undo").ok();
    let policy = "[[admit]]\nusers = [\"ann\"]\nlinks = [\"packet\"]\n";
    hosts[1].write("/etc/wiglaf/helper.toml", policy, "root", 0o644);
    let refused = ann.run("wiglaf tune -w pc2");
    let said = refused.complaint();
    assert!(said.contains("pc2 is not tuned: the helper refuses: the policy"), "{refused}");
    assert_eq!(frames(&hosts[1], &card), FRAMES);
    drop(helper);
}

#[test]
fn job_is_tuned_while_it_runs_however_it_ends() {
    let Some(hosts) = joined_hosts() else { return };
    let ann = hosts[0].as_user("ann");
    let (card, helper) = give_card(&hosts[1]);
    let seen = || frames(&hosts[1], &card);

    let job = "wiglaf run --tune --mpi none -n 2 -- sh -c 'echo runs; sleep 3333'";
    let mut first = ann.start(job);
    assert!(first.has_printed("runs"));
    assert_eq!(seen(), 1);
    // pc1 has no helper: it is said, and the job runs.
    assert!(first.so_far()[1].contains("pc1 is not tuned"), "{:?}", first.so_far());
    let status = ann.run("wiglaf status");
    assert!(status.ok().contains("pc2 is tuned by ann for a job"), "{status}");
    let mut second = ann.start(job);
    assert!(second.has_printed("runs"));
    first.interrupt();
    let _ = first.wait();
    assert_eq!(seen(), 1, "the other job holds it");
    // A helper that is killed sets it back, and the next one is asked again.
    helper.signal(Signal::KILL);
    let _ = helper.wait();
    let _helper = self::helper(&hosts[1]);
    wait(|| seen() == 1);
    // A launcher that is killed says nothing to anybody.
    second.signal(Signal::KILL);
    let _ = second.wait();
    wait(|| seen() == FRAMES);
    // One that ends well.
    assert_eq!(ann.run("wiglaf run --tune --mpi none -w pc2 -- true").status.code(), Some(0));
    wait(|| seen() == FRAMES);
}

#[test]
fn host_that_leaves_is_as_it_was() {
    let Some(hosts) = hosts() else { return };
    let ann = hosts[0].as_user("ann");
    let joined = ann.run("wiglaf join pc2 --copy --yes");
    assert!(joined.ok().contains("pc2: joined"), "{joined}");
    hosts[1].copy(
        &hosts.install_tree().unwrap().join("usr/local/sbin/wiglaf-helper"),
        "/usr/local/sbin/wiglaf-helper",
        0o755,
    );
    let (card, _helper) = give_card(&hosts[1]);
    let tuned = ann.run("wiglaf tune -w pc2");
    assert!(tuned.ok().contains("tap0 rx-frames 9 -> 1"), "{tuned}");
    let left = ann.run("wiglaf leave pc2 --yes");
    assert!(left.ok().contains("pc2: left"), "{left}");
    assert_eq!(frames(&hosts[1], &card), FRAMES);
}
