//! The command line: what may be written, and the help.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use wiglaf_base::shell::quoted;

use crate::options::{Global, typed};
use crate::{
    agent, batch, bench, capture, check, compare, cp, demo, discover, doctor, down, env, exec,
    fault, floor, grid, image, init, join, links, manual, monitor, mount, power, predict, profile,
    rank_usage, reset, run, serve_files, stats, status, top, tune, up, web,
};
#[cfg(feature = "trials")]
use crate::{hostile, soak};

const EXAMPLES: &str = "\
Examples:
  wiglaf up                              bring two emulated nodes up
  wiglaf run -n 2 -- ./my_mpi_program    run an MPI program on them, over Wiglaf
  wiglaf run --transport tcp -- ./prog   the same over TCP, to compare
  wiglaf exec -w 'node[1-2]' -- ip addr  look at the nodes
  wiglaf down                            take everything away again

On real PCs: `wiglaf init`, `wiglaf join pc2 pc3`, then these commands.

No second machine is needed, and the programs need no change: see
`wiglaf run --help`. `wiglaf doctor` says what this machine offers.";

/// MPI programs across a cluster of PCs without TCP.
///
/// Wiglaf carries the messages of unmodified MPI programs over plain Ethernet,
/// past the TCP/IP stack. This command brings up an emulated cluster, runs
/// programs on it, and measures.
#[derive(Debug, Parser)]
#[command(name = "wiglaf", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Prints help that was asked for, or says in one sentence what is wrong with
/// the command line.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    const STATUS_USAGE: u8 = 2;
    if !error.use_stderr() {
        // A reader that has seen enough is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(STATUS_USAGE);
    }
    let odd = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(odd))) => Some(odd.as_str()),
        _ => None,
    };
    let words = typed();
    let (path, command) = command_of(&words);
    let sentence = one_sentence(&error.to_string());
    match odd.and_then(|odd| with_dashes(words, odd, &command)) {
        Some(line) => eprintln!("wiglaf: {sentence}; a program stands behind `--`: `{line}`"),
        None => eprintln!("wiglaf: {sentence}; see `{path} --help`"),
    }
    ExitCode::from(STATUS_USAGE)
}

/// What was typed, with `--` before the word `odd`, where the command takes a program there.
fn with_dashes(mut words: Vec<String>, odd: &str, command: &clap::Command) -> Option<String> {
    let takes_program = command.get_positionals().any(clap::Arg::is_last_set);
    let at = words.iter().position(|word| word == odd)?;
    if !takes_program || odd.starts_with('-') || words.iter().any(|word| word == "--") {
        return None;
    }
    words.insert(at, "--".to_owned());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(format!("wiglaf {}", words.join(" ")))
}

/// The command that a command line got to, whatever is wrong with it: the one whose help is wanted. With its name.
fn command_of(words: &[String]) -> (String, clap::Command) {
    let mut command = Cli::command();
    let mut path = command.get_name().to_owned();
    for word in words.iter().take_while(|word| *word != "--") {
        if let Some(inner) = command.find_subcommand(word).cloned() {
            path = format!("{path} {word}");
            command = inner;
        }
    }
    (path, command)
}

/// The cause and the hints of a message, without the usage below them.
fn one_sentence(message: &str) -> String {
    let message = message.trim_start_matches("error: ");
    let paragraphs = message
        .split("\n\n")
        .take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let flat = paragraphs.map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    flat.collect::<Vec<_>>().join("; ")
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Args),
    Discover(discover::Args),
    Join(join::Args),
    Leave(join::LeaveArgs),
    Up(up::Args),
    Status(status::Args),
    Down(down::Args),
    Reset(reset::Args),
    Check(check::Args),
    Tune(tune::Args),
    Power(power::Args),
    Sensors(power::SensorsArgs),
    Monitor(monitor::Args),
    Image(image::Args),
    Top(top::Args),
    Web(web::Args),
    Run(run::Args),
    Compare(compare::Args),
    /// Count and time your program's calls of MPI: would a faster network help?
    #[command(after_help = profile::HELP)]
    Profile(profile::Args),
    Predict(predict::Args),
    Batch(batch::Args),
    Submit(grid::SubmitArgs),
    Jobs(grid::JobsArgs),
    Exec(exec::Args),
    Cp(cp::Args),
    Mount(mount::Args),
    Umount(mount::UmountArgs),
    Fault(fault::Args),
    Stats(stats::Args),
    Capture(capture::Args),
    Bench(bench::Args),
    #[cfg(feature = "trials")]
    Soak(soak::Args),
    Demo(demo::Args),
    Env(env::Args),
    Doctor(doctor::Args),
    Links(links::Args),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[command(hide = true)]
    Floor(floor::Args),
    #[cfg(feature = "trials")]
    #[command(hide = true)]
    Hostile(hostile::Args),
    /// Open packet sockets for users without privilege; started by `wiglaf up`
    #[command(hide = true)]
    Helper,
    #[command(hide = true)]
    ServeFiles(serve_files::Args),
    #[command(hide = true)]
    RankUsage(rank_usage::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    /// Run commands of one client on standard input and output; started by ssh
    #[command(hide = true)]
    HostAgent,
    /// Change this host as standard input says; started by `wiglaf join`
    #[command(hide = true)]
    JoinHost,
    /// Say what this host is like; started by `wiglaf check`
    #[command(hide = true)]
    HostFacts,
    /// Measure to other hosts; started by `wiglaf check`
    #[command(hide = true)]
    HostProbe,
    /// Tune this host as standard input says; started by `wiglaf tune`
    #[command(hide = true)]
    HostTune,
    #[command(hide = true)]
    HostBatch(batch::HostArgs),
    #[command(hide = true)]
    HostOwner(batch::OwnerArgs),
    #[command(hide = true)]
    HostWake(batch::WakeArgs),
    #[command(hide = true)]
    NodeInit(NodeInitArgs),
}

/// PID 1 of an emulated node; started by `wiglaf up`
#[derive(Debug, Args)]
pub(crate) struct NodeInitArgs {
    /// Shown in process lists; the rest comes on standard input
    node: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clap breaks what is longer, and a column of examples looks broken then.
    #[test]
    fn every_line_of_help_fits_a_terminal() {
        fn check(command: &clap::Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
