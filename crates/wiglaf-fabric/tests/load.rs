//! The library as libfabric meets it: what it exports, and what `fi_info` says about it.

mod common;

use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().expect("run a program that is installed");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn it_exports_a_provider_and_a_libfabric_and_links_none() {
    if !common::installed(&["nm", "readelf"]) {
        return;
    }
    let library = common::library();
    let exported = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let names: Vec<&str> =
        exported.lines().filter_map(|line| line.split_whitespace().last()).collect();
    // Those with a version are libfabric's own interface (tests/front.rs).
    let plain: Vec<&str> = names.into_iter().filter(|name| !name.contains("FABRIC_")).collect();
    assert_eq!(plain, ["fi_prov_ini"]);
    let wanted = run(Command::new("nm").args(["-D", "--undefined-only"]).arg(&library));
    assert!(!wanted.contains(" fi_"), "{wanted}");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(!dynamic.contains("libfabric"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

fn fi_info(args: &[&str]) -> String {
    run(Command::new("fi_info").args(args).env("FI_PROVIDER_PATH", common::provider_dir()))
}

#[test]
fn fi_info_lists_it_once() {
    if !common::installed(&["fi_info"]) {
        return;
    }
    let listed = fi_info(&["-p", "wiglaf"]);
    assert_eq!(listed.matches("provider: wiglaf").count(), 1, "{listed}");
    assert!(listed.contains("type: FI_EP_RDM"), "{listed}");
}

#[test]
fn fi_info_finds_what_is_there_and_nothing_else() {
    if !common::installed(&["fi_info"]) {
        return;
    }
    let asked = |caps, kind| fi_info(&["-p", "wiglaf", "-c", caps, "-t", kind]);
    let found = asked("FI_TAGGED|FI_MSG|FI_MULTI_RECV|FI_DIRECTED_RECV|FI_SOURCE", "FI_EP_RDM");
    assert!(found.contains("provider: wiglaf"), "{found}");
    for (caps, kind) in
        [("FI_MSG", "FI_EP_MSG"), ("FI_MSG", "FI_EP_DGRAM"), ("FI_HMEM", "FI_EP_RDM")]
    {
        let found = asked(caps, kind);
        assert!(found.contains("-61"), "{caps} {kind}: {found}");
    }
    let found = fi_info(&["-p", "wiglaf", "-n", "127.0.0.1", "-P", "4711", "-v"]);
    assert!(found.contains("dest_addr: fi_sockaddr_in://127.0.0.1:4711"), "{found}");
}
