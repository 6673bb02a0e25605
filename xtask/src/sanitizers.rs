//! Sanitizers and models: `xtask tsan`, `asan`, `miri`, `loom`.
//!
//! ThreadSanitizer must see the standard library too, or it misses what its locks order and reports
//! what does not race. So the library is built along, from its sources (`-Zbuild-std`). The options of
//! sanitizers are for nightly compilers; the pinned one takes them with `RUSTC_BOOTSTRAP`. Miri is a
//! component of nightly toolchains only. loom is a library, and needs nothing.
//!
//! Each is shown a bug first that it must find: where it does not, its silence proves nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A crate, and which of its tests.
type Run = (&'static str, &'static [&'static str]);

/// A tool, and what it looks at.
struct Sanitizer {
    name: &'static str,
    /// The test with a bug in it, and what is said when it is found.
    canary: Run,
    finding: &'static str,
    runs: &'static [Run],
    command: fn(&Facts) -> Result<Command, String>,
}

/// What the pinned compiler says of itself.
struct Facts {
    host: String,
    sysroot: String,
}

const TSAN: Sanitizer = Sanitizer {
    name: "tsan",
    canary: ("wiglaf-fabric", &["--test", "threads", "a_race_that_must_be_found"]),
    finding: "data race",
    runs: &[
        ("wiglaf-fabric", &["--test", "threads"]),
        ("wiglaf-fabric", &["--lib", "wait"]),
        ("wiglaf-link-shm", &["--lib", "ring"]),
    ],
    command: |facts| {
        let sources = Path::new(&facts.sysroot).join("lib/rustlib/src/rust/library/std");
        if !sources.is_dir() {
            return Err("the sources of the standard library are missing: \
                        rustup component add rust-src"
                .to_owned());
        }
        let mut command = instrumented(facts, "thread");
        // A race ends the process at once, so that its test fails.
        command.arg("-Zbuild-std").env("TSAN_OPTIONS", "halt_on_error=1 second_deadlock_stack=1");
        Ok(command)
    },
};

/// The address sanitizer looks for leaks, too, when a process ends.
const ASAN: Sanitizer = Sanitizer {
    name: "asan",
    canary: ("wiglaf-endpoint", &["--lib", "a_read_beyond_the_end_that_must_be_found"]),
    finding: "heap-buffer-overflow",
    runs: &[
        ("wiglaf-crc", &["--lib"]),
        ("wiglaf-link", &["--lib"]),
        ("wiglaf-link-shm", &["--lib"]),
        ("wiglaf-link-udp", &["--lib"]),
        ("wiglaf-link-packet", &["--lib"]),
        ("wiglaf-link-xdp", &["--lib"]),
        ("wiglaf-endpoint", &[]),
        ("wiglaf-fabric", &["--lib"]),
        ("wiglaf-fabric", &["--test", "calls"]),
        ("wiglaf-fabric", &["--test", "refusals"]),
        ("wiglaf-fabric", &["--test", "threads"]),
    ],
    command: |facts| Ok(instrumented(facts, "address")),
};

const MIRI: Sanitizer = Sanitizer {
    name: "miri",
    canary: ("wiglaf-endpoint", &["--lib", "a_read_beyond_the_end_that_must_be_found"]),
    finding: "Undefined Behavior",
    // What makes no system call. Encryption is assembly, and so left out; the comparison of the
    // receive window with a set has not been seen to end.
    runs: &[
        ("wiglaf-endpoint", &["--lib"]),
        ("wiglaf-crc", &["--lib"]),
        ("wiglaf-wire", &["--lib"]),
        ("wiglaf-transport", &["--lib", "--", "--skip", "encrypt", "--skip", "agrees_with_a_set"]),
    ],
    command: |_| {
        let asked = Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
        if !asked.is_ok_and(|output| output.status.success()) {
            return Err(
                "Miri is missing: rustup toolchain install nightly --component miri,rust-src"
                    .to_owned(),
            );
        }
        let mut command = Command::new("cargo");
        command.args(["+nightly", "miri", "test", "--target-dir", "target/miri"]);
        // Each step costs a hundred times what it costs a processor: few random cases, which are
        // kept nowhere.
        command
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            // What it knows of what checksums are folded with.
            .env("RUSTFLAGS", "-C target-feature=+avx2,+pclmulqdq,+vpclmulqdq,+sse4.1,+sse4.2")
            .env("PROPTEST_CASES", "4")
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
        Ok(command)
    },
};

const LOOM: Sanitizer = Sanitizer {
    name: "loom",
    canary: ("wiglaf-link-shm", &["--lib", "models::a_race_that_must_be_found"]),
    finding: "Causality violation",
    runs: &[("wiglaf-link-shm", &["--lib", "models"])],
    command: |_| {
        let mut command = Command::new(cargo());
        command.args(["test", "--target-dir", "target/loom"]).env("RUSTFLAGS", "--cfg loom");
        Ok(command)
    },
};

/// ThreadSanitizer: the provider's threads, the ring of shared memory.
pub(crate) fn tsan() -> Result<(), String> {
    TSAN.run()
}

/// AddressSanitizer: the links, the endpoint, the provider.
pub(crate) fn asan() -> Result<(), String> {
    ASAN.run()
}

/// Miri: what makes no system call.
pub(crate) fn miri() -> Result<(), String> {
    MIRI.run()
}

/// loom: what several processes or threads share.
pub(crate) fn loom() -> Result<(), String> {
    LOOM.run()
}

impl Sanitizer {
    /// Runs it all; the first finding ends it.
    fn run(&self) -> Result<(), String> {
        let facts = Facts::ask()?;
        let mut command = self.command(&facts, self.canary)?;
        let after =
            if self.canary.1.contains(&"--") { &["--ignored"][..] } else { &["--", "--ignored"] };
        let output = command.args(after).output().map_err(|why| not_started(&why))?;
        let said = [output.stdout, output.stderr].concat();
        if output.status.success() || !String::from_utf8_lossy(&said).contains(self.finding) {
            std::io::stderr().write_all(&said).map_err(|why| why.to_string())?;
            return Err(format!("{} has not found the bug that it was shown", self.name));
        }
        for &run in self.runs {
            let status = self.command(&facts, run)?.status().map_err(|why| not_started(&why))?;
            if !status.success() {
                return Err(format!("{}: {status}", run.0));
            }
        }
        Ok(())
    }

    fn command(&self, facts: &Facts, (package, tests): Run) -> Result<Command, String> {
        eprintln!("== {}: {package} {}", self.name, tests.join(" "));
        let mut command = (self.command)(facts)?;
        command.args(["--package", package]).args(tests);
        Ok(command)
    }
}

impl Facts {
    fn ask() -> Result<Self, String> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let asked = |arguments: &[&str]| -> Result<String, String> {
            let output =
                Command::new(&rustc).args(arguments).output().map_err(|why| why.to_string())?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let about = asked(&["-vV"])?;
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .ok_or("rustc has no host")?;
        let sysroot = asked(&["--print", "sysroot"])?.trim().to_owned();
        Ok(Self { host: host.to_owned(), sysroot })
    }
}

fn not_started(why: &std::io::Error) -> String {
    format!("cargo cannot be started: {why}")
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// `cargo test` with the pinned compiler and one of its sanitizers.
fn instrumented(facts: &Facts, sanitizer: &str) -> Command {
    let mut command = Command::new(cargo());
    let folder = if sanitizer == "thread" { "target/tsan" } else { "target/asan" };
    command
        .args(["test", "--target", &facts.host, "--target-dir", folder])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
    command
}
