//! One host is configured, and its packages and files go to the others by `wiglaf image update`, and back: stand-ins
//! with their own root, real ssh, dpkg and apt.

mod common;

use common::hosts::{assert_same, sentence};
use wiglaf_testhosts::{Host, Hosts, Plan};

/// What must be as before after a rollback: files of the system, and the packages' versions.
const LISTING: &str = "find /etc /opt /var/lib/wiglaf -xdev -printf '%p %y %m %u:%g %l\\n' | LC_ALL=C sort; \
    find /etc /opt /var/lib/wiglaf -xdev -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; \
    dpkg-query -W; apt-mark showauto";

/// An archive of packages on the host's own disk: tests-of-tool 1 and 2, which takes tests-of-lib 2 then.
const ARCHIVE: &str = r#"set -e
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d /var/lib/apt/lists/*
mkdir -p /opt/archive && cd /opt/archive
make() {
    mkdir -p root/DEBIAN root/usr/share/$1
    echo "$2" >root/usr/share/$1/version
    for file in $4; do
        mkdir -p root/etc && echo "as $1 brings it" >root/etc/$file && echo /etc/$file >>root/DEBIAN/conffiles
    done
    printf '%s\n' "Package: $1" "Version: $2" "Architecture: all" 'Maintainer: Nobody <nobody@localhost>' \
        'Description: for a test' >root/DEBIAN/control
    [ -z "$3" ] || echo "Depends: $3" >>root/DEBIAN/control
    dpkg-deb -Znone --root-owner-group --build root "$1_$2_all.deb" >/dev/null
    { cat root/DEBIAN/control; echo "Filename: ./$1_$2_all.deb"; echo "Size: $(stat -c %s "$1_$2_all.deb")"
      echo "SHA256: $(sha256sum <"$1_$2_all.deb" | cut -c1-64)"; echo; } >>Packages
    rm -r root
}
make tests-of-tool 1 ''
make tests-of-tool 2 tests-of-lib
make tests-of-lib 1 ''
make tests-of-old 1 ''
make tests-of-files 1 '' 'tests-of-a.conf tests-of-b.conf tests-of-c.conf'
echo 'deb [trusted=yes] file:/opt/archive ./' >/etc/apt/sources.list
apt-get update -qq"#;

fn apt(host: &Host, words: &str) {
    let line = format!("DEBIAN_FRONTEND=noninteractive apt-get install -y -qq {words}");
    let _ = host.as_root().run(&line).ok();
}

/// Three hosts in a cluster, whose packages come from a folder; pc1 has been configured further.
fn configured() -> Option<Hosts> {
    let hosts = Hosts::or_skip(&Plan::new(3).with_sudo())?;
    let tree = hosts.install_tree().expect("a release build");
    hosts[0].install(&tree).expect("room on pc1");
    for host in hosts.iter() {
        let _ = host.as_root().run(ARCHIVE).ok();
        host.write("/etc/motd", "welcome\n", "root", 0o644);
        host.write("/etc/tests/alone.conf", host.name(), "root", 0o644);
        apt(host, "tests-of-tool=1");
    }
    apt(&hosts[1], "tests-of-old");
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf init --network 192.168.77.0/24").ok();
    let _ = ann.run("wiglaf join pc[2-3] --yes").ok();
    apt(&hosts[0], "tests-of-tool=2");
    hosts[0].write("/etc/motd", "welcome to the lab\n", "root", 0o600);
    hosts[0].write("/etc/tests/alone.conf", "as pc1 has it", "root", 0o644);
    hosts[0].write("/etc/tests/deep/er/ann.conf", "ann's\n", "ann", 0o640);
    let more = "chmod 700 /etc/tests/deep; ln -s ../motd /etc/tests/link; echo 10.9.9.9 nas >>/etc/hosts; \
                rm -f /etc/legal-of-tests; echo secret >/etc/shadow-of-tests";
    let _ = hosts[0].as_root().run(more).ok();
    hosts[1].write("/etc/tests/theirs.conf", "of pc2\n", "root", 0o644);
    Some(hosts)
}

fn listing(host: &Host) -> String {
    host.as_root().run(LISTING).ok().to_owned()
}

/// What tells a host from others.
fn identity(host: &Host) -> String {
    let line = "hostname; cat /etc/hostname /etc/hosts /etc/passwd /etc/shadow /etc/machine-id; sha256sum \
                /etc/ssh/ssh_host_*";
    host.as_root().run(line).stdout
}

/// In place of mmdebstrap: says what it was asked for, and fails.
const NO_DEBIAN: &str = r#"#!/bin/sh
echo "$@" >/tmp/asked
for word; do
    case "$word" in
    *Preferences*) cp "$(echo "$word" | cut -d'"' -f2)" /tmp/preferences ;;
    */apt/*) cat "$word" >>/tmp/sources ;;
    esac
done
echo 'E: no archive here' >&2
exit 1
"#;

#[test]
fn image_like_a_host_says_what_it_takes_and_asks_for_those_versions() {
    let Some(hosts) = configured() else { return };
    apt(&hosts[1], "tests-of-files");
    hosts[1].write("/etc/tests-of-a.conf", "of pc2\n", "root", 0o644);
    hosts[1].write("/etc/tests/own.key", "-----BEGIN PRIVATE KEY-----\n", "root", 0o600);
    hosts[1].write("/usr/local/etc/tool.rc", "as pc2\n", "root", 0o600);
    let _ = hosts[1].as_root().run("rm /etc/tests-of-b.conf").ok();
    let ann = hosts[0].as_user("ann");
    let keys = "mkdir -p .ssh; [ -e .ssh/id_ed25519.pub ] || ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519";
    let _ = ann.run(keys).ok();
    let before = listing(&hosts[1]);
    let dry = ann.run("wiglaf image build --from pc2 --exclude /etc/tests/alone.conf --dry-run");
    for line in [
        "take package tests-of-tool 1\n",
        "take package tests-of-old 1\n",
        "take /etc/tests-of-a.conf, a package's, changed there\n",
        "take /usr/local/etc/tool.rc\n",
        "take /etc/tests/theirs.conf\n",
        "remove /etc/tests-of-b.conf, a package's, as there\n",
        "leave out /etc/tests/own.key: it has a private key; --path with the file itself takes it\n",
        "leave out /etc/tests/alone.conf: you have excluded it\n",
        "leave out /etc/hostname: it tells that host from others, or depends on it\n",
        "leave out /etc/shadow: it tells that host from others, or depends on it\n",
        "leave out /etc/ssh/ssh_host_ed25519_key: it tells that host from others, or depends on it\n",
    ] {
        assert!(dry.ok().contains(line), "{line}{dry}");
    }
    assert!(!dry.stdout.contains("take /etc/ssh/ssh_host"), "{dry}");
    assert!(!dry.stdout.contains("take /etc/tests-of-c.conf"), "{dry}");
    assert_same(&before, &listing(&hosts[1]), "pc2");
    let json = ann.run("wiglaf image build --from pc2 --dry-run --json");
    let plan: serde_json::Value = serde_json::from_str(json.ok()).expect("JSON");
    assert_eq!(plan["like"]["name"], "pc2", "{json}");
    let itself = ann.run("wiglaf image build --from pc1 --dry-run");
    assert!(itself.ok().contains("take package tests-of-tool 2\n"), "{itself}");
    let nobody = ann.run("wiglaf image build --from pc9 --dry-run");
    assert!(sentence(&nobody).contains("pc9"), "{nobody}");
    let twice = ann.run("wiglaf image build --from pc2 --release 12 --dry-run");
    assert!(twice.complaint().contains("--release"), "{twice}");

    // As root, with the ssh of who has called sudo.
    hosts[0].write("/usr/local/sbin/mmdebstrap", NO_DEBIAN, "root", 0o755);
    for tool in ["mkfs.fat", "mcopy", "mmd"] {
        hosts[0].write(&format!("/usr/local/sbin/{tool}"), "#!/bin/sh\n", "root", 0o755);
    }
    let made = ann.run("sudo wiglaf --file ~/.config/wiglaf/cluster.toml image build --from pc2");
    assert!(sentence(&made).contains("no archive here"), "{made}");
    let asked = hosts[0].read("/tmp/asked");
    assert!(asked.contains("tests-of-old") && asked.contains("file-mirror-automount"), "{asked}");
    let pins = hosts[0].read("/tmp/preferences");
    assert!(pins.contains("Package: tests-of-tool\nPin: version 1\n"), "{pins}");
    assert!(hosts[0].read("/tmp/sources").contains("file:/opt/archive"));
}

#[test]
fn packages_and_files_of_the_first_go_to_the_others_and_back() {
    let Some(hosts) = configured() else { return };
    let ann = hosts[0].as_user("ann");
    let before: Vec<(String, String)> =
        hosts.iter().map(|host| (listing(host), identity(host))).collect();
    let nobody = ann.run("wiglaf image update -w pc9 --dry-run");
    assert!(sentence(&nobody).contains("pc9 is no host of the cluster file"), "{nobody}");
    let itself = ann.run("wiglaf image update -w pc1 --dry-run");
    assert!(sentence(&itself).contains("name others with -w HOSTS"), "{itself}");
    let odd = ann.run("wiglaf image update -w pc2 --path /proc/sys --dry-run");
    assert!(sentence(&odd).contains("--path /usr/local/etc"), "{odd}");
    let none = ann.run("wiglaf image rollback -w pc2 --yes");
    assert!(sentence(&none).contains("no update is left to roll back"), "{none}");

    let dry = ann.run("wiglaf image update -w pc[2-3] --dry-run");
    for line in [
        "pc2: add /etc/tests/deep/er/ann.conf\n",
        "pc2: add /etc/tests/link\n",
        "pc2: change /etc/motd\n",
        "pc3: change /etc/tests/alone.conf\n",
        "pc3: install tests-of-lib 1\n",
        "pc3: upgrade tests-of-tool 1 -> 2\n",
        "pc2: 1 files and 1 packages are there alone, and stay; --delete removes them\n",
    ] {
        assert!(dry.ok().contains(line), "{line}{dry}");
    }
    assert!(!dry.stdout.contains("/etc/hosts\n"), "{dry}");
    assert_same(&before[1].0, &listing(&hosts[1]), "pc2");
    let unsaid = ann.run("wiglaf image update -w pc[2-3]");
    assert!(sentence(&unsaid).contains("--yes"), "{unsaid}");

    let _ = ann.run("wiglaf image update -w pc[2-3] --yes").ok();
    let there = "stat -c '%n %a %U:%G' /etc/motd /etc/tests/deep /etc/tests/deep/er/ann.conf; cat /etc/motd \
                 /etc/tests/alone.conf /etc/tests/link; dpkg-query -W tests-of-tool tests-of-lib; apt-mark \
                 showauto | grep wiglaf-tests; cat /usr/share/tests-of-tool/version";
    let wanted = hosts[0].as_root().run(there);
    for (host, before) in hosts.iter().zip(&before).skip(1) {
        assert_eq!(host.as_root().run(there).stdout, wanted.stdout, "{}", host.name());
        assert_eq!(identity(host), before.1, "{}", host.name());
    }
    assert_eq!(hosts[1].read("/etc/tests/theirs.conf"), "of pc2\n");
    let again = ann.run("wiglaf image update -w pc[2-3] --json --dry-run");
    let plans: serde_json::Value = serde_json::from_str(again.ok()).expect("JSON");
    assert_eq!(plans[0]["changed"].as_array().map(Vec::len), Some(0), "{again}");
    assert_eq!(plans[1]["upgraded"].as_array().map(Vec::len), Some(0), "{again}");

    // What somebody has changed since stays, and is named.
    hosts[1].write("/etc/motd", "somebody was here\n", "root", 0o644);
    let back = ann.run("wiglaf image rollback -w pc[2-3] --yes");
    assert!(back.ok().contains("pc3: put back /etc/motd\n"), "{back}");
    assert!(back.stdout.contains("pc3: tests-of-tool 2 -> 1\n"), "{back}");
    assert!(back.stderr.contains("pc2: /etc/motd stays: somebody has changed it"), "{back}");
    assert_eq!(hosts[1].read("/etc/motd"), "somebody was here\n");
    assert_eq!(hosts[1].read("/etc/tests/alone.conf"), "pc2");
    assert_same(&before[2].0, &listing(&hosts[2]), "pc3");
}

#[test]
fn hosts_lose_what_the_first_has_not_if_asked_and_a_host_that_fails_is_as_it_was() {
    let Some(hosts) = configured() else { return };
    let ann = hosts[0].as_user("ann");
    let before: Vec<String> = hosts.iter().map(listing).collect();
    // A package that pc3 knows of and cannot fetch.
    let archive = "rm /opt/archive/tests-of-lib_1_all.deb";
    let _ = hosts[2].as_root().run(archive).ok();
    let lacking = listing(&hosts[2]);
    let gone = ann.run("wiglaf image update -w pc[2-3] --delete --yes");
    assert!(sentence(&gone).contains("pc3: "), "{gone}");
    assert!(sentence(&gone).contains("it is as it was"), "{gone}");
    assert!(gone.stdout.contains("pc2: remove /etc/tests/theirs.conf\n"), "{gone}");
    assert!(gone.stdout.contains("pc2: purge tests-of-old\n"), "{gone}");
    assert_same(&lacking, &listing(&hosts[2]), "pc3");
    let there = hosts[1].as_root().run("ls /etc/tests/theirs.conf; dpkg-query -W tests-of-old");
    assert_eq!(there.stdout, "");
    let _ = ann.run("wiglaf image rollback -w pc2 --yes").ok();
    assert_same(&before[1], &listing(&hosts[1]), "pc2");
    // The second host may be the model, of files alone.
    let from = ann.run("wiglaf image update --from pc2 -w pc3 --no-packages --path /opt --yes");
    assert!(from.ok().contains("pc3: add /etc/tests/theirs.conf\n"), "{from}");
    assert_eq!(hosts[2].read("/etc/tests/theirs.conf"), "of pc2\n");
}
