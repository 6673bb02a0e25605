//! The `wiglaf` command. Thin: every subcommand reads its arguments, calls a
//! library, and prints.

#![forbid(unsafe_code)]

mod agent;
mod args;
mod batch;
mod bench;
mod blocked;
mod capture;
mod check;
mod choices;
mod compare;
mod cp;
mod demo;
mod discover;
mod doctor;
mod down;
mod env;
mod exec;
mod fault;
mod floor;
mod grid;
#[cfg(feature = "trials")]
mod hostile;
mod image;
mod init;
mod join;
mod links;
mod manual;
mod measuring;
mod monitor;
mod mount;
mod options;
mod output;
mod power;
mod predict;
mod profile;
mod rank_usage;
mod reset;
mod run;
mod serve_files;
#[cfg(feature = "trials")]
mod soak;
mod stats;
mod status;
mod toolchain;
mod top;
mod tune;
mod up;
mod web;
mod which;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use clap::CommandFactory;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::refuse(&error),
    };
    let state = cli.global.state_dir();
    let outcome = match &cli.command {
        Command::Init(args) => init::run(args, &cli.global),
        Command::Discover(args) => discover::run(args, &cli.global),
        Command::Join(args) => join::run(args, &cli.global),
        Command::Leave(args) => join::leave(args, &cli.global),
        Command::Up(args) => up::run(args, &cli.global),
        Command::Status(args) => status::run(args, &cli.global),
        Command::Down(_) => down::run(&state),
        Command::Batch(args) => batch::run(args, &cli.global),
        Command::Submit(args) => grid::submit(args),
        Command::Jobs(args) => grid::jobs(args),
        Command::Reset(args) => reset::run(args, &cli.global),
        Command::Check(args) => check::run(args, &cli.global),
        Command::Tune(args) => tune::run(args, &cli.global),
        Command::HostTune => tune::host_tune(),
        Command::HostFacts => check::host_facts(),
        Command::HostProbe => check::host_probe(),
        Command::Power(args) => power::run(args, &cli.global),
        Command::Sensors(args) => power::sensors(args, &cli.global),
        Command::Image(args) => image::run(args, &cli.global),
        Command::Monitor(args) => monitor::run(args, &cli.global),
        Command::Top(args) => top::run(args, &cli.global),
        Command::Web(args) => web::run(args, &cli.global),
        Command::Exec(args) => exec::run(args, &cli.global),
        Command::Cp(args) => cp::run(args, &cli.global),
        Command::Mount(args) => mount::run(args, &cli.global),
        Command::Umount(args) => mount::umount(args),
        Command::Fault(args) => fault::run(args, &state),
        Command::Capture(args) => capture::run(args, &cli.global),
        Command::Stats(args) => stats::run(args, &cli.global),
        Command::Run(args) => run::run(args, &cli.global),
        Command::Compare(args) => compare::run(args, &cli.global),
        Command::Predict(args) => predict::run(args),
        Command::Profile(args) => profile::run(args, &cli.global),
        Command::RankUsage(args) => rank_usage::run(args),
        Command::Bench(args) => bench::run(args, &cli.global),
        #[cfg(feature = "trials")]
        Command::Soak(args) => soak::run(args, &cli.global),
        Command::Demo(args) => demo::run(args, &cli.global),
        Command::Floor(args) => floor::run(args),
        #[cfg(feature = "trials")]
        Command::Hostile(args) => hostile::run(args),
        Command::Env(args) => env::run(args, &cli.global),
        Command::Doctor(args) => doctor::run(args, &cli.global),
        Command::Links(args) => links::run(args, &cli.global),
        Command::Completions(args) => manual::completions(args, &Cli::command()),
        Command::Man(args) => manual::man(args, &Cli::command()),
        Command::ServeFiles(args) => serve_files::run(args, &state),
        Command::Helper => helper(),
        Command::Agent(args) => agent::run(args, &state),
        Command::HostAgent => wiglaf_node::agent::host_main().map(|()| ExitCode::SUCCESS),
        Command::JoinHost => wiglaf_join::host::main().map(|()| ExitCode::SUCCESS),
        Command::HostBatch(args) => batch::host(args).map(|()| ExitCode::SUCCESS),
        Command::HostWake(args) => batch::wake(args).map(|()| ExitCode::SUCCESS),
        Command::HostOwner(args) => batch::owner(args).map(|()| ExitCode::SUCCESS),
        Command::NodeInit(_) => wiglaf_emulation::init::main().map(|()| ExitCode::FAILURE),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("wiglaf: {error}");
        ExitCode::from(error.exit_status())
    })
}

/// The helper of an emulated node; real ones have a program of that name.
fn helper() -> wiglaf_base::Result<ExitCode> {
    let places = wiglaf_helper::Places {
        socket: wiglaf_helper::SOCKET.into(),
        policy: wiglaf_helper::POLICY.into(),
        // There are no cards on an emulated node.
        tuning: None,
    };
    let served = wiglaf_helper::serve(&places).map(|()| ExitCode::FAILURE);
    served.map_err(wiglaf_base::Error::new)
}
