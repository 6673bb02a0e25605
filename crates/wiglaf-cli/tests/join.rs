//! PCs become the hosts of a cluster and leave it again: stand-ins with their own root, an ordinary user, ssh.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::hosts::{HELLO, assert_same, put_program, sentence};
use wiglaf_testhosts::{Host, Hosts, Output, Plan};

/// What is compared before a host joins and after it has left. What logs grow by is none of it.
const LISTING: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
    -o -path /var/log -o -path /var/cache/ldconfig -o -path /var/lib/sudo \\) -prune -o \
    -printf '%p %y %m %u %l\\n' 2>/dev/null | LC_ALL=C sort; \
    find /home /root /var/tmp -printf '%p %y %m %u %l\\n' | LC_ALL=C sort; \
    find /home /usr/local /etc /var/lib/wiglaf -xdev -type f 2>/dev/null | LC_ALL=C sort | \
    grep -v '^/etc/ld.so.cache' | xargs -d '\\n' sha256sum";
/// Hosts of which only the first has Wiglaf.
fn hosts(plan: &Plan) -> Option<Hosts> {
    let hosts = Hosts::or_skip(plan)?;
    let tree = hosts.install_tree().expect("a release build");
    hosts[0].install(&tree).expect("room on pc1");
    Some(hosts)
}

/// With a cluster file of ann's.
fn cluster(plan: &Plan) -> Option<Hosts> {
    let hosts = hosts(plan)?;
    let _ = hosts[0].as_user("ann").run("wiglaf init --network 192.168.77.0/24").ok();
    Some(hosts)
}

fn listing(host: &Host) -> String {
    host.as_root().run(LISTING).ok().to_owned()
}

#[track_caller]
fn assert_runs(output: &Output, ranks: usize) {
    let sum = ranks * (ranks - 1) / 2;
    let said = output.ok().lines().filter(|line| line.ends_with(&format!(": {sum}"))).count();
    assert_eq!(said, ranks, "{output}");
}

#[test]
fn user_without_root_gets_from_pcs_to_a_job_and_back() {
    let Some(hosts) = hosts(&Plan::new(3)) else { return };
    put_program(&hosts, HELLO);
    let before: Vec<String> = hosts.iter().map(listing).collect();
    let ann = hosts[0].as_user("ann");
    // Two wired networks: it does not guess.
    let which = ann.run("wiglaf init");
    assert!(sentence(&which).contains("`wiglaf init --network 192.168.77.0/24`"), "{which}");
    let written = ann.run("wiglaf init --network 192.168.77.0/24 --admin 10.9.0.0/24 --name lab");
    assert!(written.ok().contains("pc1 is the first host"), "{written}");
    let again = ann.run("wiglaf init --network 192.168.77.0/24");
    assert!(sentence(&again).contains("there is a cluster file already"), "{again}");
    let dry = ann.run("wiglaf join pc2 pc3 --copy --dry-run");
    assert!(dry.ok().contains("pc3: install Wiglaf"), "{dry}");
    assert_same(&before[1], &listing(&hosts[1]), "pc2");
    let unsaid = ann.run("wiglaf join pc2 pc3 --copy");
    assert!(sentence(&unsaid).contains("--yes"), "{unsaid}");
    let joined = ann.run("wiglaf join pc2 pc3 --copy --yes");
    assert!(joined.ok().contains("pc[2-3]: joined"), "{joined}");
    assert_runs(&ann.run("wiglaf run -n 3 --link udp -- ./hello"), 3);
    // The others know each other, and the cluster.
    assert_runs(
        &hosts[2].as_user("ann").run(".local/bin/wiglaf run -n 3 --link udp -- ./hello"),
        3,
    );
    let twice = ann.run("wiglaf join pc2 --copy --yes");
    assert!(sentence(&twice).contains("pc2 has joined already"), "{twice}");
    assert!(sentence(&twice).contains("`wiglaf leave pc2`"), "{twice}");
    let file = hosts[0].read("/home/ann/.config/wiglaf/cluster.toml");
    assert!(file.contains("nodes = \"pc[1-3]\""), "{file}");
    assert_eq!(hosts[1].read("/home/ann/.config/wiglaf/cluster.toml"), file);
    let left = ann.run("wiglaf leave pc2 pc3 --yes");
    assert!(left.ok().contains("pc[2-3]: left"), "{left}");
    for (host, before) in hosts.iter().zip(&before).skip(1) {
        assert_same(before, &listing(host), host.name());
    }
    let _ = ann.run("rm -r .config/wiglaf; rmdir .config").ok();
    assert_same(&before[0], &listing(&hosts[0]), "pc1");
}

#[test]
fn with_sudo_all_hosts_have_one_installation_and_leave_takes_it_back() {
    let Some(hosts) = cluster(&Plan::new(3).with_sudo()) else { return };
    put_program(&hosts, HELLO);
    let before: Vec<String> = hosts.iter().skip(1).map(listing).collect();
    let ann = hosts[0].as_user("ann");
    let joined = ann.run("wiglaf join pc[2-3] --yes");
    assert!(joined.ok().contains("pc[2-3]: joined"), "{joined}");
    assert!(joined.stderr.contains("no systemd runs there"), "{joined}");
    assert_runs(&ann.run("wiglaf run -n 3 -- ./hello"), 3);
    assert_runs(&hosts[1].as_user("ann").run("wiglaf run -n 3 -- ./hello"), 3);
    let whose = hosts[1]
        .as_root()
        .run("stat -c '%U %a' /usr/local/bin/wiglaf /var/lib/wiglaf/manifest.json");
    assert_eq!(whose.ok(), "root 755\nroot 644\n");
    // Root has no cluster file; whose is meant is said, and no image of no cluster is made.
    let image = ann.run("sudo wiglaf image build --dry-run");
    let hint = "add `--file /home/ann/.config/wiglaf/cluster.toml`";
    assert!(image.complaint().contains(hint), "{image}");
    let left = ann.run("wiglaf leave pc2 --yes");
    assert!(left.ok().contains("pc2: left"), "{left}");
    // The others have heard of it.
    let file = hosts[2].read("/home/ann/.config/wiglaf/cluster.toml");
    assert!(file.contains("nodes = \"pc[1,3]\"") && !file.contains("pc2"), "{file}");
    let _ = ann.run("wiglaf leave pc3 --yes").ok();
    for (host, before) in hosts.iter().skip(1).zip(&before) {
        assert_same(before, &listing(host), host.name());
    }
}

/// systemctl, as far as `join` asks it: units are enabled or not.
const SYSTEMCTL: &str = "#!/bin/sh\ncase $1 in\nis-enabled) test -e /root/enabled ;;\nenable) touch /root/enabled ;;\n\
    disable) rm -f /root/enabled ;;\nesac\n";

#[test]
fn helper_comes_to_hosts_that_have_wiglaf_already() {
    let Some(hosts) = cluster(&Plan::new(2).with_sudo()) else { return };
    let ann = hosts[0].as_user("ann");
    for host in hosts.iter() {
        let _ = host.as_root().run("mkdir -p /run/systemd/system; chmod 755 /root").ok();
        host.write("/usr/local/bin/systemctl", SYSTEMCTL, "root", 0o755);
    }
    let before = listing(&hosts[0]);
    let planned = ann.run("wiglaf join pc2 --dry-run");
    for host in ["pc1", "pc2"] {
        assert!(planned.ok().contains(&format!("{host}: start wiglaf-helper, now")), "{planned}");
    }
    assert!(!planned.ok().contains("pc1: install"), "{planned}");
    let joined = ann.run("wiglaf join pc2 --yes");
    assert!(joined.stderr.contains("pc1: wiglaf-helper is being started"), "{joined}");
    for host in hosts.iter() {
        let _ =
            host.as_root().run("test -e /root/enabled && grep ann /etc/wiglaf/helper.toml").ok();
    }
    // Who disables it is not asked again, unless that host is named.
    let _ = hosts[0].as_root().run("systemctl disable").ok();
    let again = ann.run("wiglaf join pc2 --yes");
    assert!(sentence(&again).contains("pc2 has joined already"), "{again}");
    let named = ann.run("wiglaf join pc1 --yes");
    assert!(named.ok().contains("pc1: start wiglaf-helper, now"), "{named}");
    let _ = hosts[0].as_root().run("test -e /root/enabled").ok();
    let _ = ann.run("wiglaf leave pc2 --yes").ok();
    let _ = ann.run("wiglaf leave pc1 --yes");
    assert_same(&before, &listing(&hosts[0]), "pc1");
}

/// Wiglaf's Debian package as `make deb` lays it out, but for what takes programs that tests do without. It may need
/// another package.
fn package(hosts: &Hosts, folder: &Path, depends: &str) -> PathBuf {
    let tree = hosts.install_tree().expect("a release build");
    let (root, deb) = (folder.join("package"), folder.join(format!("wiglaf_{depends}.deb")));
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share/debian");
    let script = format!(
        "set -e; mkdir -p {root}/DEBIAN {root}/usr; cp -a {tree}/usr/local/. {root}/usr/
        cd {root}/usr; rm -rf include share; for l in libwiglaf libwiglaf_files; do mv lib/$l.so lib/$l.so.0; done
        sed -i s,/usr/local/,/usr/, lib/systemd/system/wiglaf-helper.service
        for s in postinst prerm postrm; do install -m 755 {scripts}/$s {root}/DEBIAN/; done
        printf '%s\\n' 'Package: wiglaf' 'Version: {version}' 'Architecture: amd64' 'Depends: {depends}' \
            'Maintainer: Nobody <nobody@localhost>' 'Description: for a test' >{root}/DEBIAN/control
        dpkg-deb -Znone --root-owner-group --build {root} {deb} >/dev/null; rm -r {root}",
        root = root.display(),
        tree = tree.display(),
        scripts = scripts.display(),
        version = env!("CARGO_PKG_VERSION"),
        deb = deb.display(),
    );
    assert!(Command::new("sh").arg("-c").arg(script).status().expect("sh").success());
    deb
}

#[test]
fn hosts_join_by_the_debian_package_and_leave_without_it() {
    let Some(hosts) = Hosts::or_skip(&Plan::new(2).with_sudo()) else { return };
    put_program(&hosts, HELLO);
    let folder = tempfile::tempdir_in(hosts.folder()).unwrap();
    hosts[0].copy(&package(&hosts, folder.path(), "libc6"), "/home/ann/wiglaf.deb", 0o644);
    let lacking = package(&hosts, folder.path(), "no-such-package-of-tests");
    hosts[0].copy(&lacking, "/home/ann/lacking.deb", 0o644);
    // Nothing is fetched.
    let offline = "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d /var/lib/apt/lists";
    for host in hosts.iter() {
        let _ = host.as_root().run(offline).ok();
    }
    let install = "cd ~ann && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ./wiglaf.deb";
    let _ = hosts[0].as_root().run(install).ok();
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf init --network 192.168.77.0/24").ok();
    // dpkg and apt keep notes of what they did.
    let listing = || {
        let text = listing(&hosts[1]);
        let is_theirs = |line: &&str| {
            ["/var/lib/dpkg", "/var/lib/apt", "/var/cache"].iter().any(|at| line.starts_with(at))
        };
        text.lines().filter(|line| !is_theirs(line)).map(|line| format!("{line}\n")).collect()
    };
    let before: String = listing();
    let copies = ann.run("wiglaf join pc2 --dry-run");
    assert!(copies.ok().contains("below /usr/local"), "{copies}");
    assert!(copies.stderr.contains("`wiglaf join --deb wiglaf_*.deb`"), "{copies}");
    let none = ann.run("wiglaf join pc2 --deb hello --yes");
    assert!(sentence(&none).contains("hello is no Debian package of Wiglaf"), "{none}");
    let refused = ann.run("wiglaf join pc2 --deb lacking.deb --yes");
    assert!(sentence(&refused).contains("`apt-get install` failed there"), "{refused}");
    assert!(sentence(&refused).contains("is as it was"), "{refused}");
    assert_same(&before, &listing(), "pc2");
    let joined = ann.run("wiglaf join pc2 --deb wiglaf.deb --yes");
    assert!(joined.ok().contains("pc2: joined"), "{joined}");
    let there = "dpkg-query -W -f '${db:Status-Status}\\n' wiglaf; \
                 ls /usr/local/bin/wiglaf /var/lib/wiglaf/wiglaf.deb";
    assert_eq!(hosts[1].as_root().run(there).stdout, "installed\n");
    assert_runs(&ann.run("wiglaf run -n 2 -- ./hello"), 2);
    let left = ann.run("wiglaf leave pc2 --yes");
    assert!(left.ok().contains("pc2: left"), "{left}");
    assert!(left.stdout.contains("purge 1 Debian packages"), "{left}");
    assert_same(&before, &listing(), "pc2");
    assert_eq!(hosts[1].as_root().run(there).stdout, "");
}

#[test]
fn host_that_fails_is_as_it_was_and_the_others_have_joined() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    // What a look does not see: the cluster file cannot be written there.
    let _ = hosts[2].as_user("ann").run("mkdir -p .config && touch .config/wiglaf").ok();
    let before = listing(&hosts[2]);
    let joined = ann.run("wiglaf join pc2 pc3 --copy --yes");
    assert!(sentence(&joined).contains("pc3: cannot"), "{joined}");
    assert!(sentence(&joined).contains("is as it was"), "{joined}");
    assert!(joined.stdout.contains("pc2: joined"), "{joined}");
    assert_same(&before, &listing(&hosts[2]), "pc3");
    let file = hosts[0].read("/home/ann/.config/wiglaf/cluster.toml");
    assert!(file.contains("nodes = \"pc[1-2]\"") && !file.contains("pc3"), "{file}");
    let known = hosts[1].read("/home/ann/.config/wiglaf/cluster.toml");
    assert_eq!(known, file);
}

#[test]
fn full_disk_is_seen_before_anything_is_changed() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    let small =
        "mkdir ~ann/.local && mount -t tmpfs -o size=20m,uid=2001,gid=2001 small ~ann/.local";
    let _ = hosts[2].as_root().run(small).ok();
    let before = listing(&hosts[1]);
    let full = ann.run("wiglaf join pc2 pc3 --copy --yes");
    assert!(sentence(&full).starts_with("wiglaf: pc3: the disk of /home/ann/.local has"), "{full}");
    assert_same(&before, &listing(&hosts[1]), "pc2");
}

#[test]
fn what_stands_in_the_way_is_a_sentence_with_the_next_step() {
    let mut plan = Plan::new(3);
    plan.users[0].uid_on.insert(2, 3003);
    let Some(hosts) = cluster(&plan) else { return };
    let ann = hosts[0].as_user("ann");
    let before: Vec<String> = hosts.iter().skip(1).map(listing).collect();
    let said = |line: &str| {
        let output = ann.run(line);
        let complaint = output.complaint().to_owned();
        assert_eq!(complaint.lines().count(), 1, "one sentence: {output}");
        complaint
    };
    for (line, part) in [
        ("wiglaf join pc9 --copy --yes", "no host pc9"),
        ("wiglaf join pc2 --yes", "`wiglaf join pc2 --copy`"),
        ("wiglaf join nobody@pc2 --copy --yes", "ssh-copy-id nobody@pc2"),
        ("wiglaf join 10.9.0.1 --copy --yes", "it is this host"),
        ("wiglaf join -- -oProxyCommand=x", "is not a host list"),
        ("wiglaf leave pc2 --yes", "has no host pc2"),
        ("wiglaf leave pc1 --yes", "pc1 is this host"),
        ("wiglaf join pc2 10.9.0.2 --copy --yes", "are one host"),
        ("wiglaf -f nothing.toml join pc2", "nothing.toml"),
    ] {
        let said = said(line);
        assert!(said.contains(part), "{line}: {said}");
    }
    // A key that has changed.
    let _ = ann.run("for s in /run/user/*/wiglaf/ssh-*; do ssh -O exit -S $s pc2; done").ok();
    let other_key = "cp .ssh/known_hosts known; key=$(grep ^pc3 known | cut -d' ' -f3); \
                     sed -i \"s|^\\(pc2[^ ]* [^ ]*\\) .*|\\1 $key|\" .ssh/known_hosts";
    let _ = ann.run(other_key).ok();
    let changed = said("wiglaf join pc2 --copy --yes");
    assert!(changed.contains("host key") && changed.contains("pc2"), "{changed}");
    let _ = ann.run("mv known .ssh/known_hosts").ok();
    // Nothing was changed by any of these.
    for (host, before) in hosts.iter().skip(1).zip(&before) {
        assert_same(before, &listing(host), host.name());
    }
    // Another number of the user's is told, and no hindrance.
    let other = ann.run("wiglaf join pc3 --copy --dry-run");
    let _ = other.ok();
    assert!(other.stderr.contains("you are 3003 there and 2001 here"), "{other}");
    // A host that is in another cluster, or has a file of its own.
    let _ = ann.run("wiglaf join pc2 --copy --yes").ok();
    hosts[2].write("/home/ann/.config/wiglaf/cluster.toml", "nodes = 2\n", "ann", 0o644);
    let own = said("wiglaf join pc3 --copy --yes");
    assert!(own.contains("a cluster file of its own"), "{own}");
    let _ = hosts[2].as_root().run("rm -r ~ann/.config").ok();
    let _ = ann.run("mv .local/share/wiglaf/manifest.json kept; sed -i 's/^nodes/name = \"new\"\\nnodes/' .config/wiglaf/cluster.toml").ok();
    let in_other = said("wiglaf join pc2 --copy --yes");
    assert!(in_other.contains("in another cluster (hosts, joined by ann@pc1)"), "{in_other}");
}

#[test]
fn what_somebody_has_changed_since_stays_and_is_named() {
    let Some(hosts) = cluster(&Plan::new(2)) else { return };
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf join pc2 --copy --yes").ok();
    let there = hosts[1].as_user("ann");
    let _ = there
        .run("echo '# mine' >> .config/wiglaf/cluster.toml; echo own >> .ssh/known_hosts")
        .ok();
    let left = ann.run("wiglaf leave pc2 --yes");
    assert!(sentence(&left).contains("/home/ann/.config/wiglaf/cluster.toml stays"), "{left}");
    assert!(hosts[1].read("/home/ann/.config/wiglaf/cluster.toml").contains("# mine"));
    assert!(hosts[1].read("/home/ann/.ssh/known_hosts").ends_with("own\n"));
    assert!(!there.run("ls .local/bin/wiglaf").status.success());
    let file = hosts[0].read("/home/ann/.config/wiglaf/cluster.toml");
    assert!(!file.contains("pc2"), "{file}");
}

#[test]
fn dead_host_leaves_the_file_only() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf join pc2 pc3 --copy --yes").ok();
    let _ = ann.run("for s in /run/user/*/wiglaf/ssh-*; do ssh -O exit -S $s pc2; done").ok();
    hosts[1].power_off();
    let off = ann.run("wiglaf leave pc2 --yes");
    assert!(sentence(&off).contains("`wiglaf leave --dead pc2`"), "{off}");
    let dead = ann.run("wiglaf leave --dead pc2 --yes");
    assert!(dead.ok().contains("pc2: left"), "{dead}");
    let file = hosts[2].read("/home/ann/.config/wiglaf/cluster.toml");
    assert!(file.contains("nodes = \"pc[1,3]\""), "{file}");
}

#[test]
fn login_that_prints_and_other_shells_are_no_hindrance() {
    let mut plan = Plan::new(2);
    plan.users[0].shell = "/usr/bin/fish".into();
    plan.hosts[1].sshd_config = "Banner /etc/issue.net\n".to_owned();
    let Some(hosts) = cluster(&plan) else { return };
    hosts[1].write("/etc/issue.net", "Welcome to pc2\n", "root", 0o644);
    let noise = "echo noise; echo more >&2\n";
    let _ = hosts[1].as_user("ann").run("mkdir -p .config/fish").ok();
    for file in [".bashrc", ".config/fish/config.fish"] {
        hosts[1].write(&format!("/home/ann/{file}"), noise, "ann", 0o644);
    }
    let before = listing(&hosts[1]);
    let ann = hosts[0].as_user("ann");
    let joined = ann.run("wiglaf join pc2 --copy --yes");
    assert!(joined.ok().contains("pc2: joined"), "{joined}");
    let seen = ann.run("wiglaf exec -w pc2 -- hostname");
    assert!(seen.ok().contains("pc2"), "{seen}");
    let _ = ann.run("wiglaf leave pc2 --yes").ok();
    assert_same(&before, &listing(&hosts[1]), "pc2");
}

#[test]
fn discover_lists_neighbours_with_ssh() {
    let mut plan = Plan::new(3);
    plan.hosts[2].sshd = false;
    let Some(hosts) = cluster(&plan) else { return };
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("ssh pc2 true; ssh pc3 true; true").ok();
    let found = ann.run("wiglaf discover");
    let row = |name: &str| {
        let line = found.ok().lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("pc2"), ["pc2", "192.168.77.2", "yes", "-"], "{found}");
    assert_eq!(row("pc3"), ["pc3", "192.168.77.3", "no", "-"], "{found}");
    assert!(!found.ok().contains("192.168.77.1 "), "{found}");
    let json = ann.run("wiglaf discover --json --network 10.9.0.0/24");
    assert!(json.ok().contains("\"network\": \"10.9.0.0/24\""), "{json}");
}

/// Debian's Avahi as a tree of files: installed, its daemon would speak on this machine's networks.
fn avahi() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = "apt-get download -q avahi-daemon avahi-utils libavahi-core7 libdaemon0 \
                libavahi-common3 libavahi-client3 && \
                for deb in *.deb; do dpkg -x $deb tree || exit 1; done";
    let done = std::process::Command::new("sh").args(["-c", line]).current_dir(&folder).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    folder
}

#[test]
fn discover_has_the_names_of_nameless_neighbours_from_avahi() {
    let Some(hosts) = cluster(&Plan::new(3)) else { return };
    let avahi = avahi();
    for host in &hosts[..2] {
        host.install(&avahi.path().join("tree")).unwrap();
        let start = "ldconfig && useradd --system avahi && mkdir -p /run/dbus && \
                     rm -f /run/dbus/pid && dbus-daemon --system --fork && \
                     avahi-daemon --daemonize --no-drop-root --no-chroot --no-rlimits";
        let _ = host.as_root().run(start).ok();
    }
    let forget = "sed -i '/pc[23]/d' /etc/hosts && rm -f /etc/ssh/ssh_known_hosts /home/ann/.ssh/known_hosts";
    let _ = hosts[0].as_root().run(forget).ok();
    let ann = hosts[0].as_user("ann");
    let meet = "ping -c 1 192.168.77.2 && ping -c 1 192.168.77.3";
    let _ = ann.run(meet).ok();
    let found = ann.run("wiglaf discover");
    let has = |words: &[&str]| {
        let mut lines = found.ok().lines();
        lines.any(|line| words.iter().all(|word| line.split_whitespace().any(|one| one == *word)))
    };
    assert!(has(&["pc2.local", "192.168.77.2", "yes", "avahi"]), "{found}");
    assert!(has(&["-", "192.168.77.3", "yes", "neighbour"]), "it has no Avahi: {found}");
}
