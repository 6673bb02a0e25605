//! `wiglaf agent`: what MPI runtimes call instead of ssh.

use std::path::PathBuf;
use std::process::ExitCode;

use wiglaf_base::{Error, Result};
use wiglaf_cluster::StateDir;
use wiglaf_cluster::cluster::{HOSTS_VAR, agents_node};
use wiglaf_node::client::may_enter;
use wiglaf_node::{NodeCommand, Streams};

/// Options of ssh that take a value; all options are accepted and ignored.
const WITH_VALUE: &str = "bcDEeFIiJLlmOopQRSWw";
/// What a runtime tells its daemons on the command line must not reach them
/// as its own environment, too.
const NOT_PASSED_ON: [&str; 6] = ["OMPI_", "ORTE_", "OPAL_", "PMIX_", "PRTE_", "PMI_"];

/// Run a command on a node as ssh does: agent [OPTIONS] HOST COMMAND...
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    let (host, command) = split(&args.words)
        .ok_or_else(|| Error::new("agent needs a host and a command: agent HOST COMMAND..."))?;
    // As sshd has it: users like `nobody` have no home folder, or may not enter it, and start at the root.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| may_enter(home));
    let home = home.unwrap_or_else(|| PathBuf::from("/"));
    let command = NodeCommand::new(["/bin/sh", "-c", &command])
        .cwd(home)
        .retain_env(|name| !NOT_PASSED_ON.iter().any(|prefix| name.starts_with(prefix)));
    let node = match std::env::var(HOSTS_VAR) {
        Ok(hosts) => agents_node(&hosts, host)?,
        Err(_) => state.node(host),
    };
    let end = node.spawn(&command, Streams::inherit()?)?.wait()?;
    Ok(ExitCode::from(end.code()))
}

/// The host without its user, and the command as one string.
fn split(words: &[String]) -> Option<(&str, String)> {
    let mut words = words.iter();
    let host = loop {
        let word = words.next()?;
        match word.strip_prefix('-') {
            Some("-") => break words.next()?,
            Some(option) if option.len() == 1 && WITH_VALUE.contains(option) => {
                words.next()?;
            }
            Some(_) => {}
            None => break word,
        }
    };
    let host = host.rsplit_once('@').map_or(host.as_str(), |(_, host)| host);
    let command: Vec<&str> = words.map(String::as_str).collect();
    (!command.is_empty()).then(|| (host, command.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn it_is_called_as_ssh_is() {
        for line in ["node2 orted -x y", "-x -p 22 node2 orted -x y", "-oA=b ann@node2 orted -x y"]
        {
            assert_eq!(split(&words(line)), Some(("node2", "orted -x y".to_owned())), "{line}");
        }
        for line in ["", "-x", "node2", "-p", "-p 22 node2"] {
            assert_eq!(split(&words(line)), None, "{line}");
        }
    }
}
