//! A job's secret for an mpirun of one's own between real hosts: a file of the user's on each, so that it is
//! in no variable that a launcher sends in clear.

use std::io::{Read, Write};
use std::path::PathBuf;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{End, random};
use wiglaf_node::client::{NodeCommand, Streams, null};

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
    let pipe = || std::io::pipe().cannot(|| "make a pipe".to_owned());
    let ((stdin, mut to), (mut from, stdout)) = (pipe()?, pipe()?);
    let streams = Streams { stdin: stdin.into(), stdout: stdout.into(), stderr: null()? };
    let command = NodeCommand::new(["sh", "-c", KEEP, "sh", name]).cwd("/");
    let running = member.node.spawn(&command, streams)?;
    to.write_all(key.as_bytes())
        .cannot(|| format!("send the job's secret to {}", member.name()))?;
    drop(to);
    let mut path = String::new();
    from.read_to_string(&mut path).cannot(|| format!("hear of {}", member.name()))?;
    match running.wait()? {
        End::Status(0) => Ok(PathBuf::from(path.trim_end())),
        _ => Err(Error::new(format!(
            "{} cannot keep the job's secret in ~/.cache/wiglaf/keys; is its disk full?",
            member.name()
        ))),
    }
}
