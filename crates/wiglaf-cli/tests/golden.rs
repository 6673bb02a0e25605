//! What the command prints, word for word. After a wanted change:
//! `WIGLAF_BLESS=1 cargo test -p wiglaf-cli --test golden`.

mod common;

use std::fs;
use std::path::Path;

use common::{Said, Site};

/// Compares what was said with a file, or writes the file.
#[track_caller]
fn check(name: &str, said: &Said, site: &Site) {
    let text = format!(
        "status {}\n--- stdout\n{}--- stderr\n{}",
        said.status.map_or_else(|| "none".to_owned(), |s| s.to_string()),
        said.stdout,
        said.stderr
    );
    let text = plain(&text, site);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("WIGLAF_BLESS").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "{} differs; bless it with `WIGLAF_BLESS=1 cargo test -p wiglaf-cli --test golden` if this is \
         wanted:\n{text}",
        path.display()
    );
}

/// Without what differs from run to run: folders and pids.
fn plain(text: &str, site: &Site) -> String {
    let text = text.replace(&site.state().display().to_string(), "STATE");
    let pid = |line: &str| {
        let start = line.find("\"pid\": ")? + "\"pid\": ".len();
        let end = start + line[start..].find(',')?;
        Some(format!("{}PID{}", &line[..start], &line[end..]))
    };
    let mut lines: Vec<String> =
        text.lines().map(|line| pid(line).unwrap_or_else(|| line.to_owned())).collect();
    lines.push(String::new());
    lines.join("\n")
}

#[test]
fn help() {
    let site = Site::new();
    check("help", &site.wiglaf(&["--help"]), &site);
    for command in [
        "up",
        "status",
        "down",
        "reset",
        "batch",
        "run",
        "tune",
        "power",
        "sensors",
        "monitor",
        "image",
        "top",
        "web",
        "compare",
        "profile",
        "exec",
        "cp",
        "mount",
        "umount",
        "fault",
        "links",
        "predict",
        "stats",
        "capture",
        "bench",
        "demo",
        "env",
        "doctor",
        "completions",
        "man",
    ] {
        let said = site.wiglaf(&[command, "--help"]);
        let widest = said.stdout.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 80, "the help of {command} is {widest} columns wide");
        check(&format!("help-{command}"), &said, &site);
    }
}

#[test]
fn bad_command_lines() {
    let site = Site::new();
    for (name, args) in [
        ("error-subcommand", &["runn"][..]),
        ("error-no-program", &["run"]),
        ("error-no-dashes", &["run", "-n", "4", "./my prog", "--steps", "9"]),
        ("error-option", &["up", "--bogus"]),
        ("error-rate", &["up", "--rate", "5apples"]),
        ("error-hostlist", &["exec", "-w", "node[1-", "--", "true"]),
        ("error-name", &["--name", "../x", "up"]),
        ("error-transport", &["run", "--transport", "pigeon", "--", "true"]),
        ("error-page", &["man", "nothing"]),
        ("error-mtu", &["up", "--mtu", "5"]),
        ("error-direct", &["up", "--wire", "direct", "--rate", "1gbit"]),
        ("error-share", &["fault", "set", "--drop", "1"]),
        ("error-share-beyond", &["fault", "set", "--reorder", "2.5"]),
        ("error-mpi", &["run", "--mpi", "foo", "--", "true"]),
        ("error-for", &["capture", "-w", "-", "--for", "abc"]),
        ("error-node-name", &["up", "-N", "ä"]),
        ("error-no-file", &["up", "--file", "no-such.toml"]),
        ("error-not-up", &["exec", "--", "true"]),
        ("status-not-up", &["status"]),
        ("status-not-up-json", &["status", "--json"]),
        ("down-not-up", &["down"]),
        ("reset-not-up", &["reset"]),
    ] {
        check(name, &site.wiglaf(args), &site);
    }
    assert!(!site.state().exists(), "an error left the state folder behind");
}

#[test]
fn bad_cluster_files() {
    let site = Site::new();
    for (name, text) in [
        ("file-unknown-field", "nodes = 2\nnods = 3\n"),
        ("file-syntax", "nodes = 2\nrate = \n"),
        ("file-rate", "\nrate = \"fast\"\n"),
        ("file-ssh", "[ssh]\nhosts = \"pc[1-4]\"\n"),
        ("file-node", "nodes = 2\n[node.node3]\ncore = 0\n"),
    ] {
        fs::write(site.work().join("wiglaf.toml"), text).unwrap();
        let said = site.wiglaf(&["up", "--file", "wiglaf.toml"]);
        check(name, &said, &site);
        assert_eq!((said.status, said.stderr.lines().count()), (Some(1), 1), "{said:?}");
    }
    assert!(!site.state().exists(), "an error left the state folder behind");
}

#[test]
fn status() {
    let Some(site) = Site::up(&["--rate", "1gbit", "--no-pin"]) else { return };
    check("up-already", &site.wiglaf(&["up", "--rate", "1gbit", "--no-pin"]), &site);
    check("status-json", &site.wiglaf(&["status", "--json"]), &site);
    check("error-other-shape", &site.wiglaf(&["up", "--nodes", "3"]), &site);
}

#[test]
fn completions_and_pages_are_there() {
    let site = Site::new();
    for shell in ["bash", "zsh", "fish"] {
        let said = site.wiglaf(&["completions", shell]).expect_success();
        assert!(said.stdout.contains("transport"), "{shell}");
    }
    for (args, title) in [
        (&["man"][..], ".TH wiglaf 1"),
        (&["man", "run"], ".TH wiglaf-run 1"),
        (&["man", "bench", "ring"], ".TH wiglaf-bench-ring 1"),
    ] {
        assert!(site.wiglaf(args).expect_success().stdout.contains(title));
    }
    let dir = site.work();
    site.wiglaf(&["man", "--dir", dir.to_str().unwrap()]).expect_success();
    for name in ["wiglaf", "wiglaf-run", "wiglaf-man", "wiglaf-bench", "wiglaf-bench-pingpong"] {
        assert!(dir.join(format!("{name}.1")).exists(), "no page {name}");
    }
    assert!(!dir.join("wiglaf-agent.1").exists(), "a page for a hidden command");
}
