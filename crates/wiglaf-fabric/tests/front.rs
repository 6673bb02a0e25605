//! The library under libfabric's own name, before the system's: real programs that are linked to
//! libfabric get from it what they would have got, and other providers stay within reach.
#![cfg(target_arch = "x86_64")]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The libfabric that the dynamic linker takes without us, if the front can stand before it.
fn system() -> Option<PathBuf> {
    let found = Command::new("/sbin/ldconfig").arg("-p").output().ok()?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with("libfabric.so.1 "));
    let path = line.and_then(|line| Some(PathBuf::from(line.split_once(" => ")?.1)));
    let fits = |path: &PathBuf| !symbols(path).iter().any(|name| name.ends_with("FABRIC_1.7"));
    let path = path.filter(fits);
    if path.is_none() {
        eprintln!("skipped: there is no libfabric before 1.20 (Debian: libfabric1)");
    }
    path
}

/// What a library exports of libfabric's interface, with versions.
fn symbols(library: &PathBuf) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let text = String::from_utf8_lossy(&output.expect("run nm").stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.filter(|name| name.starts_with("fi_") && name.contains('@')).map(str::to_owned).collect()
}

/// A command that meets the front, which hands over to `behind`.
fn before(behind: &str, program: &str) -> Command {
    let dir = common::scratch("front");
    let fresh = dir.join(format!("fresh.{}-{}", std::process::id(), rand_name()));
    // One file under both names, as it is installed.
    let _ = std::os::unix::fs::symlink(common::provider_dir().join("libwiglaf-fi.so"), &fresh);
    std::fs::rename(&fresh, dir.join("libfabric.so.1")).expect("name the front");
    let mut command = Command::new("timeout");
    command.args(["60", program]).env("LD_LIBRARY_PATH", dir).env("WIGLAF_LIBFABRIC", behind);
    command.env("FI_PROVIDER_PATH", common::provider_dir()).env("WIGLAF_IP", "127.0.0.1");
    command.env_remove("FI_PROVIDER");
    command
}

fn rand_name() -> String {
    format!("{:?}", std::thread::current().id()).replace(['(', ')'], "")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_has_the_symbols_and_versions_of_the_systems() {
    if !common::installed(&["nm"]) {
        return;
    }
    let Some(system) = system() else { return };
    assert_eq!(symbols(&common::library()), symbols(&system));
}

#[test]
fn wiglaf_needs_no_other_libfabric() {
    if !common::installed(&["fi_info"]) {
        return;
    }
    for args in [&[][..], &["-p", "wiglaf"]] {
        let said = before("/nonexistent", "fi_info").args(args).output().unwrap();
        // What it prints besides has no words: those are libfabric's to tell.
        let (text, complaints) = (stdout(&said), stderr(&said));
        assert!(said.status.success(), "{text}{complaints}");
        assert_eq!(text.matches("provider: ").count(), 1, "{text}");
        assert!(text.contains("provider: wiglaf"), "{text}");
    }
}

#[test]
fn other_providers_are_found_as_ever() {
    let Some(system) = system().filter(|_| common::installed(&["fi_info"])) else { return };
    let system = system.display().to_string();
    let asked: [(&[&str], &str); 6] = [
        (&["-p", "tcp"], ""),
        (&["-p", "tcp;ofi_rxm", "-v"], ""),
        (&["-p", "wiglaf", "-v"], ""),
        (&["-l"], ""),
        (&[], "tcp"),
        (&["-p", "tcp"], "wiglaf"),
    ];
    for (args, providers) in asked {
        let ask = |command: &mut Command| {
            if !providers.is_empty() {
                command.env("FI_PROVIDER", providers);
            }
            command.args(args).output().unwrap()
        };
        let with = ask(&mut before(&system, "fi_info"));
        let without = ask(before(&system, "fi_info").env_remove("LD_LIBRARY_PATH"));
        assert_eq!(with.status, without.status, "{args:?} {providers}");
        assert_eq!(stdout(&with), stdout(&without), "{args:?} {providers}");
    }
}

#[test]
fn who_cannot_be_asked_is_told_of_once() {
    if !common::installed(&["fi_info"]) {
        return;
    }
    let itself = common::scratch("front").join("libfabric.so.1").display().to_string();
    for (behind, why) in [
        ("", "WIGLAF_LIBFABRIC does not name the system's libfabric"),
        ("/nonexistent", "cannot open shared object file"),
        (itself.as_str(), "is not the system's libfabric"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "is not the system's libfabric"),
    ] {
        let said = before(behind, "fi_info").args(["-p", "tcp"]).output().unwrap();
        let complaint = stderr(&said);
        assert_eq!(said.status.code(), Some(61), "{complaint}");
        assert_eq!(complaint.matches(why).count(), 1, "{complaint}");
    }
}

#[test]
fn programs_get_what_they_were_linked_to() {
    if !common::installed(&["cc"]) || !common::has_header("rdma/providers/fi_log.h") {
        return;
    }
    let Some(system) = system() else { return };
    let system = system.display().to_string();
    for name in ["front", "objects", "rma"] {
        let program = common::scratch("api").join(format!("{name}-before"));
        let compiled = Command::new("cc")
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg(format!("{}/tests/api/{name}.c", env!("CARGO_MANIFEST_DIR")))
            .arg("-lfabric")
            .output()
            .expect("run cc");
        assert!(compiled.status.success(), "{}", stderr(&compiled));
        let said = before(&system, program.to_str().unwrap()).output().unwrap();
        let complaints = stderr(&said);
        assert!(said.status.success(), "{name}: {}\n{complaints}", said.status);
        assert_eq!(stdout(&said), "passed\n", "{name}");
        assert!(!complaints.contains("no version information"), "{complaints}");
        if name == "front" {
            assert!(complaints.contains("any 1 2.25 3 4.50 5 6.75 number"), "{complaints}");
        }
    }
}
