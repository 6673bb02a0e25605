//! A short choice of what `make conformance` runs in full: programs that others wrote, between two
//! nodes, with checks of their own.

mod common;

use std::process::Stdio;

use common::{Site, has_openmpi};

/// Whether a program is installed; says so if not.
fn installed(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed ({package})");
    }
    found
}

#[test]
fn netpipe_finds_every_byte_in_its_place() {
    if !installed("NPopenmpi", "netpipe-openmpi") || !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    for link in ["packet", "xdp", "udp"] {
        // Preposted receives, both directions at once, and synchronous sends from any source.
        for mode in [&["-a"][..], &["-a", "-2"], &["-S", "-z"]] {
            let checked = ["NPopenmpi", "-i", "-n", "3", "-u", "1048576"];
            let run = ["run", "-n", "2", "--link", link, "--"];
            let said = site.wiglaf(&[&run[..], &checked, mode].concat()).expect_success();
            let text = said.stdout + &said.stderr;
            let lengths = text.matches("times -->").count();
            let good = text.matches("Integrity check passed").count();
            assert!(lengths > 0 && good == lengths, "{link} {mode:?}: {text}");
        }
    }
}

#[test]
fn fi_pingpong_sees_what_it_sent() {
    if !installed("fi_pingpong", "libfabric-bin") {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let test = "eval \"$(wiglaf env)\"; export WIGLAF_IF=eth0 WIGLAF_KEY=; \
                exec timeout 60 fi_pingpong -p wiglaf -e rdm -c -I 3";
    let on = |node: &str, script: &str| {
        let mut command = site.command(&["exec", "-w", node, "--", "sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let server = on("node1", test);
    // It refuses connections until it listens.
    let client =
        format!("for i in $(seq 100); do ({test} node1) && exit 0; sleep 0.1; done; exit 1");
    let client = on("node2", &client).wait_with_output().unwrap();
    let client = (client.status, String::from_utf8_lossy(&client.stdout).into_owned());
    assert!(client.0.success() && client.1.contains("1m "), "{client:?}");
    let server = server.wait_with_output().unwrap();
    assert!(server.status.success(), "{server:?}");
}
