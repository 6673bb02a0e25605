//! A job's secret for an mpirun of one's own between real hosts: a file of the user's on each, so that it is
//! in no variable that a launcher sends in clear.

use std::path::PathBuf;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::random;
use wiglaf_node::client::NodeCommand;

use crate::cluster::{self, Member};

/// Keeps what it reads where only the user reads it, says where that is, and removes those of last week.
const KEEP: &str = "umask 077; d=\"$HOME/.cache/wiglaf/keys\"; mkdir -p \"$d\" && \
                    find \"$d\" -type f -mtime +7 -delete; cat > \"$d/$1\" && echo \"$d/$1\"";

/// Draws a secret and keeps it on all these hosts. Says in which file: it has one path on all.
///
/// # Errors
/// When a host is not reached, or keeps the user's files elsewhere than the others.
pub fn keep_on(members: &[Member]) -> Result<PathBuf> {
    let (key, name) = (random::key()?, format!("{:016x}", random::nonzero()?));
    let kept = cluster::ask_all(members, |member| keep(member, &key, &name));
    let kept = cluster::all_or_error(members, kept)?;
    let first = kept.first().cloned().ok_or_else(|| Error::new("there are no hosts"))?;
    match kept.iter().position(|path| *path != first) {
        None => Ok(first),
        Some(other) => Err(Error::new(format!(
            "your home is {} on {} and {} on {}; a launcher of your own needs one path for the job's secret \
             on all hosts: use `wiglaf run`, which does not",
            first.display(),
            members[0].name(),
            kept[other].display(),
            members[other].name()
        ))),
    }
}

fn keep(member: &Member, key: &str, name: &str) -> Result<PathBuf> {
    let command = NodeCommand::new(["sh", "-c", KEEP, "sh", name]).cwd("/");
    let path = member.node.output(&command, key.as_bytes()).map_err(|error| {
        Error::new(format!(
            "{} cannot keep the job's secret in ~/.cache/wiglaf/keys: {error}",
            member.name()
        ))
    })?;
    Ok(PathBuf::from(String::from_utf8_lossy(&path).trim_end()))
}
