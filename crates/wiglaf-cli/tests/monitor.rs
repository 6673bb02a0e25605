//! `wiglaf monitor`: Debian's Prometheus on stand-in hosts, installed by a real apt-get from packages that
//! `cargo xtask packages test` has downloaded. What stands for systemd starts what the units say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wiglaf_testhosts::{Host, Hosts, Plan, Session};

/// systemctl, as far as it is used: the last ExecStart of a unit counts, and runs as the unit's user.
const SYSTEMCTL: &str = r#"#!/bin/bash
mkdir -p /run/units
args=(); for a in "$@"; do case $a in -*) [ "$a" = --now ] && now=1;; *) args+=("$a");; esac; done
verb=${args[0]}
pid() { cat "/run/units/$1" 2>/dev/null; }
stop() { [ -n "$(pid "$1")" ] && kill -KILL "$(pid "$1")" 2>/dev/null; rm -f "/run/units/$1"; }
start() {
    # The last one counts.
    files=$(ls {/usr/lib,/etc}/systemd/system/$1.service 2>/dev/null; ls /etc/systemd/system/$1.service.d/*.conf 2>/dev/null)
    [ -n "$files" ] || { echo "Unit $1.service not found." >&2; exit 5; }
    line=$(cat $files | sed -n 's/^ExecStart=//p' | grep . | tail -n 1 | sed 's/\$\$/$/g')
    user=$(cat $files | sed -n 's/^User=//p' | tail -n 1)
    state=$(cat $files | sed -n 's/^StateDirectory=//p' | tail -n 1)
    [ -z "$state" ] || mkdir -p "/var/lib/$state"
    read -ra words <<<"$line"
    setsid setpriv --reuid="${user:-root}" --regid="${user:-root}" --init-groups "${words[@]}" \
        </dev/null >>"/var/log/$1.log" 2>&1 & echo $! >"/run/units/$1"
}
for unit in "${args[@]:1}"; do
    unit=${unit%.service}
    case $verb in
    start) start "$unit";; stop) stop "$unit";; restart) stop "$unit"; start "$unit";;
    enable) touch "/etc/enabled-$unit"; [ -z "$now" ] || start "$unit";;
    disable) rm -f "/etc/enabled-$unit"; [ -z "$now" ] || stop "$unit";;
    is-active) p=$(pid "$unit"); [ -n "$p" ] && [ -d "/proc/$p" ]; exit;;
    is-enabled) [ -e "/etc/enabled-$unit" ]; exit;;
    esac
done
exit 0
"#;

fn debs() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debs")
}

/// The packages of that name, or why the test is skipped.
fn has_debs() -> bool {
    let entries = std::fs::read_dir(debs()).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let all = ["prometheus_", "prometheus-node-exporter_", "prometheus-alertmanager_"];
    let has = all.iter().all(|start| names.iter().any(|name| name.starts_with(start)));
    if !has {
        eprintln!("skipped: Prometheus's packages are not there; run: cargo xtask packages test");
    }
    has
}

fn hosts() -> Option<Hosts> {
    let mut plan = Plan::new(2).with_sudo();
    for host in &mut plan.hosts {
        host.binds.push((debs(), PathBuf::from("/var/debs")));
    }
    let hosts = Hosts::or_skip(&plan)?;
    hosts.install().expect("a release build");
    let file = "nodes = \"pc[1-2]\"\n[network]\ndata = \"192.168.77.0/24\"\nadmin = \"10.9.0.0/24\"\n\
                [node.pc1]\naddress = \"192.168.77.1\"\n[node.pc2]\naddress = \"192.168.77.2\"\n";
    hosts[0].write("/home/ann/.config/wiglaf/cluster.toml", file, "ann", 0o644);
    for host in hosts.iter() {
        host.write("/usr/local/bin/systemctl", SYSTEMCTL, "root", 0o755);
        let _ = host.as_root().run("mkdir -p /run/systemd/system").ok();
        // A copy: apt may be configured to empty that folder.
        let _ = host.as_root().run("cp /var/debs/*.deb /var/cache/apt/archives/").ok();
    }
    Some(hosts)
}

/// What is of Prometheus or of watching on a host, but for its user, its history and its logs.
fn traces(host: &Host) -> String {
    let line = "find /etc /usr/bin /lib/systemd /var/lib/wiglaf \\( -iname '*prometheus*' -o -path '*wiglaf*' \\) \
                -not -path '/etc/prometheus*' -not -path '*/rc?.d/*' -not -name 'prometheus*' 2>/dev/null | sort; \
                ls /etc/systemd/system /usr/bin/prometheus* /var/lib/wiglaf 2>/dev/null | grep -v '^prometheus.*service$'; ls /etc/enabled-* 2>/dev/null; \
                ss -Hltn | awk '{print $4}' | sort";
    host.as_root().run(line).stdout
}

/// The addresses and ports that are listened on besides those of ssh.
fn listens(host: &Host) -> Vec<String> {
    let said = host.as_root().run("ss -Hltn | awk '{print $4}' | sort -u").ok().to_owned();
    said.lines().filter(|line| !line.ends_with(":22")).map(str::to_owned).collect()
}

/// Waits until that is so; says what was seen where it never is.
#[track_caller]
fn comes(what: &str, is_so: impl Fn() -> Result<(), String>) {
    let mut last = String::new();
    let seen = (0..400).any(|_| {
        let seen = is_so();
        if let Err(why) = seen {
            last = why;
            std::thread::sleep(Duration::from_millis(300));
            return false;
        }
        true
    });
    assert!(seen, "{what}: {last}");
}

#[test]
fn hosts_are_watched_on_the_data_network_alone_and_are_as_they_were_afterwards() {
    if !has_debs() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let ann = hosts[0].as_user("ann");
    let before: Vec<String> = hosts.iter().map(traces).collect();
    let dry = ann.run("wiglaf monitor setup --dry-run");
    assert!(
        dry.ok().contains("pc1: listen on 192.168.77.1 alone: TCP 9100, 9090 and 9093"),
        "{dry}"
    );
    assert!(dry.ok().contains("pc2: listen on 192.168.77.2 alone: TCP 9100\n"), "{dry}");
    assert_eq!(before, hosts.iter().map(traces).collect::<Vec<_>>());

    let done = ann.run("wiglaf monitor setup --yes");
    assert!(done.ok().ends_with("pc[1-2]: is watched\n"), "{done}");
    let mut expected = ["9090", "9093", "9100"].map(|port| format!("192.168.77.1:{port}")).to_vec();
    comes("daemons of pc1", || match listens(&hosts[0]) {
        seen if seen == expected => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
    expected = vec!["192.168.77.2:9100".to_owned()];
    comes("daemons of pc2", || match listens(&hosts[1]) {
        seen if seen == expected => Ok(()),
        seen => Err(format!("{seen:?}")),
    });
    comes("status", || match ann.run("wiglaf monitor status") {
        seen if seen.stdout.matches(" yes ").count() == 2
            && seen.stdout.matches("s old").count() == 2 =>
        {
            Ok(())
        }
        seen => Err(seen.to_string()),
    });

    // Prometheus asks both, with Wiglaf's counters and its mark of the card.
    let query = "curl -s --noproxy '*' 'http://192.168.77.1:9090/api/v1/query?query=wiglaf_data_interface' ";
    comes("Prometheus", || match ann.run(query).stdout {
        seen if seen.contains("\"host\":\"pc1\"") && seen.contains("\"host\":\"pc2\"") => Ok(()),
        seen => Err(seen),
    });

    // The page, from another host of the data network: nobody sees anything without the token.
    let mut page = ann.start("wiglaf web --network --json");
    assert!(page.has_printed("\"token_file\""));
    let said = page.so_far().concat();
    let said: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let url = said["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with("http://192.168.77.1:8078/"), "{url}");
    let pc2 = hosts[1].as_user("ann");
    let fetch = |words: &str| format!("curl -s --noproxy '*' -b jar -c jar {words}");
    let stranger =
        pc2.run(&fetch("-o /dev/null -w '%{http_code}' http://192.168.77.1:8078/state.json"));
    assert_eq!(stranger.ok(), "401");
    let _ = pc2.run(&fetch(&format!("-o /dev/null '{url}'"))).ok();
    let seen_at = |session: &Session<'_>| -> Value {
        let line = fetch("http://192.168.77.1:8078/state.json");
        serde_json::from_str(&session.run(&line).stdout).unwrap_or_default()
    };
    comes("history of Prometheus", || {
        let state = seen_at(&pc2);
        let points = |row: &Value| row["nodes"].as_array().map_or(0, Vec::len);
        match state["history"]["is"].as_array() {
            Some(rows) if rows.iter().any(|row| points(row) > 0) => Ok(()),
            _ => Err(state["history"].to_string()),
        }
    });
    let here = format!("-o /dev/null '{url}'");
    let _ = ann.run(&fetch(&here)).ok();

    // A host that loses power is named, after a minute, and so is one whose sensor is near its limit.
    hosts[0].show_sensor(87, 90);
    hosts[1].power_off();
    let alerts = ["pc2 does not answer", "pc1 is too hot"];
    comes("alerts", || match ann.run("wiglaf monitor status") {
        seen if alerts.iter().all(|alert| seen.stdout.contains(&format!("alert: {alert}")))
            && !seen.status.success() =>
        {
            Ok(())
        }
        seen => Err(seen.to_string()),
    });
    comes("alerts on the page", || {
        let state = seen_at(&ann).to_string();
        match alerts.iter().all(|alert| state.contains(alert)) {
            true => Ok(()),
            false => Err(state),
        }
    });
    drop(page);
    hosts[1].power_on().unwrap();
    let _ = hosts[1].as_root().run("mkdir -p /run/systemd/system").ok();

    let removed = ann.run("wiglaf monitor remove --yes");
    assert!(removed.ok().ends_with("pc[1-2]: is watched no more\n"), "{removed}");
    for (host, before) in hosts.iter().zip(&before) {
        assert_eq!(&traces(host), before, "{}", host.name());
    }
}

#[test]
fn daemon_of_somebody_else_is_left_alone_and_a_host_that_fails_is_as_it_was() {
    if !has_debs() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let ann = hosts[0].as_user("ann");
    let before: Vec<String> = hosts.iter().map(traces).collect();
    // Its packages cannot be had.
    let _ = hosts[1].as_root().run("rm -f /var/cache/apt/archives/*.deb").ok();
    let failed = ann.run("wiglaf monitor setup --yes -w pc[1-2]");
    assert!(failed.complaint().contains("pc2: `apt-get install"), "{failed}");
    assert!(failed.complaint().contains("it is as it was"), "{failed}");
    assert_eq!(traces(&hosts[1]), before[1]);
    assert!(ann.run("wiglaf monitor remove --yes -w pc1").ok().contains("pc1: is watched no more"));
    // Somebody's own.
    let line = "mkdir -p /run/units; sleep 1000 & echo $! > /run/units/prometheus";
    let _ = hosts[0].as_root().run(line).ok();
    let refused = ann.run("wiglaf monitor setup --yes");
    assert!(refused.complaint().contains("pc1: prometheus runs there already"), "{refused}");
    assert_eq!(hosts[1].as_root().run("ls /var/lib/wiglaf 2>/dev/null").stdout, "");
}

#[test]
fn rules_fire_on_what_is_wrong_and_on_nothing_else() {
    if !has_debs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let deb = std::fs::read_dir(debs()).unwrap().flatten().map(|entry| entry.path());
    let is_it =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("prometheus_");
    let deb = deb.into_iter().find(is_it).unwrap();
    let unpacked = Command::new("dpkg").arg("-x").arg(&deb).arg(folder.path()).status();
    assert!(unpacked.unwrap().success());
    let share = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("wiglaf-monitor/share");
    for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules.test.yml"]] {
        let promtool = folder.path().join("usr/bin/promtool");
        let said = Command::new(promtool).args(words).current_dir(&share).output().unwrap();
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&[said.stdout, said.stderr].concat())
        );
    }
}

#[test]
fn counters_are_written_for_node_exporter_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wiglaf.prom");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiglaf"));
    command.args(["monitor", "export", "--every", "1", "--output"]).arg(&file);
    let mut child = command.spawn().unwrap();
    let time = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("wiglaf_export_time_seconds "));
        line.and_then(|value| value.parse::<u64>().ok())
    };
    let first = loop {
        if let Some(first) = time() {
            break first;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    while time() == Some(first) {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# TYPE wiglaf_packets_retransmitted_total counter\n"), "{text}");
}
