//! Tasks of development. `cargo xtask ci` is exactly what CI runs.

#![forbid(unsafe_code)]

mod ci;
mod conformance;
mod count;
mod debians;
mod fuzz;
mod guests;
mod hosts;
mod packages;
mod sanitizers;
mod sim;
mod test_programs;
mod tidy;
mod wheels;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Tasks of Wiglaf's development", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lint, tidy, build and test: what CI runs.
    Ci(ci::Judgement),
    /// Format, tidy and lint without building for real.
    Lint,
    /// Build and run all tests.
    Test(ci::Judgement),
    /// Check what no compiler checks: arrows between crates, unsafe, citations, lengths.
    Tidy,
    /// Run the test suites of others over Wiglaf and over TCP, into docs/conformance.md.
    Conformance(conformance::Arguments),
    /// Try this build in another release of Debian, as a new user has it (takes root and mmdebstrap).
    Debians(debians::Arguments),
    /// Run the provider's threads, and the shared-memory ring, under ThreadSanitizer.
    Tsan,
    /// Run the tests of the links, the endpoint and the provider under AddressSanitizer.
    Asan,
    /// Run the tests that make no system call under Miri (takes a nightly toolchain).
    Miri,
    /// Try what processes share in every order of loads and stores.
    Loom,
    /// Fuzz the parsers and the state machines (takes cargo-fuzz).
    Fuzz(fuzz::Arguments),
    /// Bring up stand-in hosts with ssh on this machine, and wait for Ctrl-C (takes root).
    Hosts(hosts::Arguments),
    /// Try real kernels and drivers: two QEMU guests with four kinds of network cards (takes root).
    Guests(guests::Arguments),
    /// Simulate the transport under faults.
    Sim(sim::Arguments),
    /// Count the product's lines of Rust, without tests, by crate.
    Count(count::Arguments),
    /// Install the Debian packages and wheels that are missing.
    Packages {
        /// What they are needed for.
        #[arg(value_enum)]
        purpose: packages::Purpose,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Ci(judgement) => ci::ci(judgement),
        Task::Lint => ci::lint(),
        Task::Test(judgement) => ci::test(judgement),
        Task::Tidy => tidy::run(),
        Task::Conformance(arguments) => conformance::run(&arguments),
        Task::Debians(arguments) => debians::run(&arguments),
        Task::Tsan => sanitizers::tsan(),
        Task::Asan => sanitizers::asan(),
        Task::Miri => sanitizers::miri(),
        Task::Loom => sanitizers::loom(),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Guests(arguments) => guests::run(&arguments),
        Task::Hosts(arguments) => hosts::run(&arguments),
        Task::Sim(arguments) => sim::run(&arguments),
        Task::Count(arguments) => count::run(&arguments),
        Task::Packages { purpose } => packages::install(purpose),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
