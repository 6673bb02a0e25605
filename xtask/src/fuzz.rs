//! `xtask fuzz`: cargo-fuzz over the targets of `crates/wiglaf-fuzz`, with AddressSanitizer.
//!
//! The options are for nightly compilers; the pinned one takes them with `RUSTC_BOOTSTRAP`. What is found
//! lies in `fuzz/artifacts/`; it belongs into the corpus once it is mended, where `make test` replays it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which targets; all of them if none is named.
    targets: Vec<String>,
    /// How long each runs, such as 60s or 10m.
    #[arg(long = "for", value_parser = crate::sim::duration, default_value = "60s")]
    time: Duration,
    /// Afterwards leave only inputs in the corpus that reach something no other reaches.
    #[arg(long)]
    minimize: bool,
}

/// Runs the targets one after the other; the first finding ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let installed = fuzz(root, "list").output();
    let Some(list) = installed.ok().filter(|output| output.status.success()) else {
        return Err("cargo-fuzz is missing: cargo install cargo-fuzz".to_owned());
    };
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let all: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(unknown) = arguments.targets.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(format!("there is no target `{unknown}`, only: {}", all.join(", ")));
    }
    let is_meant = |name: &&&str| {
        arguments.targets.is_empty() || arguments.targets.iter().any(|target| target == **name)
    };
    for name in all.iter().filter(is_meant) {
        eprintln!("== fuzz: {name}");
        let mut command = fuzz(root, "run");
        command.args([name, &format!("corpus/{name}") as &str, "--"]);
        command.args(["-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1"]);
        command.arg(format!("-max_total_time={}", arguments.time.as_secs()));
        done(&mut command)?;
        if arguments.minimize {
            let mut command = fuzz(root, "cmin");
            done(command.args([name, &format!("corpus/{name}") as &str]))?;
        }
    }
    Ok(())
}

fn fuzz(root: &Path, what: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root.join("fuzz")).args(["fuzz", what]).env("RUSTC_BOOTSTRAP", "1");
    if what != "list" {
        command.args(["--target-dir", "../target/fuzz"]);
    }
    command
}

fn done(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|why| format!("cargo cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("a finding, or no build: {status}")) }
}
