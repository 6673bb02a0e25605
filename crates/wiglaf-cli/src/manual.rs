//! `wiglaf completions` and `wiglaf man`: both from the command line's own
//! definition, so that they cannot disagree with it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_complete::Shell;
use wiglaf_base::{Error, Result};

use crate::output;

const COMPLETIONS_HELP: &str = "\
Examples:
  wiglaf completions bash > ~/.local/share/bash-completion/completions/wiglaf
  wiglaf completions fish > ~/.config/fish/completions/wiglaf.fish";

const MAN_HELP: &str = "\
Examples:
  wiglaf man | man -l -
  wiglaf man run | man -l -
  wiglaf man bench pingpong | man -l -
  wiglaf man --dir /usr/local/share/man/man1";

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    shell: Shell,
}

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArgs {
    /// The page of a subcommand [default: the page of wiglaf]
    subcommand: Vec<String>,

    /// Write all pages into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    dir: Option<PathBuf>,
}

/// `all` is the command line's definition, here as below.
pub(crate) fn completions(args: &CompletionsArgs, all: &clap::Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(all), "wiglaf", &mut script);
    output::print_bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs, all: &clap::Command) -> Result<ExitCode> {
    let pages = pages(all);
    if let Some(dir) = &args.dir {
        pages.iter().try_for_each(|(name, page)| write(dir, name, page))?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = std::iter::once("wiglaf").chain(args.subcommand.iter().map(String::as_str));
    let wanted = words.collect::<Vec<_>>().join("-");
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        return Err(Error::new(format!("there is no page `{wanted}`; see `wiglaf --help`")));
    };
    output::print_bytes(page)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without what only Wiglaf itself calls, which completions would offer.
fn visible(all: &clap::Command) -> clap::Command {
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("wiglaf")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(shown)
}

/// Name and text of every page.
fn pages(all: &clap::Command) -> Vec<(String, Vec<u8>)> {
    let mut cli = all.clone();
    cli.build();
    let mut pages = Vec::new();
    add_pages("wiglaf", &cli, &mut pages);
    pages
}

/// The page of `command` and those of its subcommands, at every depth.
fn add_pages(name: &str, command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut page);
    pages.push((name.to_owned(), page));
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for subcommand in visible {
        add_pages(&format!("{name}-{}", subcommand.get_name()), subcommand, pages);
    }
}

fn write(dir: &Path, name: &str, page: &[u8]) -> Result<()> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page)
        .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
}
