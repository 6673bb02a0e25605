//! C programs that call libfabric itself, over the provider, within one process on loopback.

mod common;

use std::process::Command;

/// Compiles and runs `tests/api/NAME.c`, which checks its own results and prints `passed`.
fn judge(name: &str) {
    judge_over(name, "auto");
}

/// Compiles and runs `tests/api/NAME.c` over the links that `link` names. It checks its own results and prints
/// `passed`.
fn judge_over(name: &str, link: &str) {
    if !common::installed(&["cc"]) || !common::has_header("rdma/fabric.h") {
        return;
    }
    let source = format!("{}/tests/api/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = common::scratch("api").join(format!("{name}-{link}"));
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .args([&source, "-lfabric"])
        .output()
        .expect("run cc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new("timeout")
        .arg("120")
        .arg(&program)
        .env("FI_PROVIDER_PATH", common::provider_dir())
        .env("WIGLAF_IP", "127.0.0.1")
        .env("WIGLAF_LINK", link)
        .output()
        .expect("run timeout");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} over {link}: {}\n{stderr}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "passed\n");
}

#[test]
fn objects() {
    judge("objects");
}

#[test]
fn asleep() {
    judge("asleep");
}

#[test]
fn absent() {
    judge_over("absent", "auto");
    judge_over("absent", "udp");
}

#[test]
fn rma() {
    judge("rma");
}

#[test]
fn data() {
    judge("data");
}

#[test]
fn collective() {
    judge_over("collective", "auto");
    judge_over("collective", "udp");
}

#[test]
fn collective_loss() {
    judge_over("collective_loss", "auto");
    judge_over("collective_loss", "udp");
}
