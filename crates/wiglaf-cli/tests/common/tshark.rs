//! What tshark reads in recordings, with our dissector.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Whether there is a tshark; says so if not.
pub(crate) fn has_tshark() -> bool {
    let found = Command::new("tshark").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: tshark is not installed");
    }
    found
}

/// What tshark says of one field in all frames that `filter` lets through.
pub(crate) fn tshark(file: &Path, filter: &str, field: &str) -> Vec<String> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share/wireshark/wiglaf.lua");
    let output = Command::new("tshark")
        .arg("-X")
        .arg(format!("lua_script:{}", lua.display()))
        .args(["-Y", filter, "-T", "fields", "-e", field, "-r"])
        .arg(file)
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !complaints.contains("Lua"), "{complaints}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().flat_map(|line| line.split(',')).map(str::to_owned).collect()
}

/// Fails unless the dissector takes every frame for ours and finds nothing wrong with any.
pub(crate) fn expect_well_formed(file: &Path) {
    let wrong = "wiglaf.malformed or _ws.malformed or _ws.lua.error or not wiglaf";
    assert_eq!(tshark(file, wrong, "frame.number"), [""; 0]);
}

/// What there is of it.
pub(crate) fn set(values: Vec<String>) -> BTreeSet<String> {
    values.into_iter().filter(|value| !value.is_empty()).collect()
}
