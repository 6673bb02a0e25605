//! Whether a host may lose its power now: not while another user's job runs there, and not under the hands of
//! who sits at it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::time::Duration;

use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::hosts::HostSpec;
use wiglaf_node::client::{Node, NodeCommand};

/// Launchers' daemons: whoever runs one runs a job.
const LAUNCHERS: [&str; 8] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "orterun",
    "orted",
    "prted",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
];
/// How long a host's ssh port may take to greet.
const GREETING: Duration = Duration::from_secs(2);

/// Whether a host can still be told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Answers,
    Silent,
}

/// Fails where the host must keep its power, unless that is forced.
pub(crate) fn check(spec: &HostSpec, node: &Node, force: bool) -> Result<Reach> {
    if spec.target.is_here && !force {
        return Err(Error::new("it is the machine you sit at; add --force if you mean it"));
    }
    let script = "id -un; exec ps -eo pid=,ppid=,user:64=,args=";
    let asked = node.output(&NodeCommand::new(["sh", "-c", script]), b"");
    match asked {
        Ok(said) => {
            let jobs = jobs_of_others(&String::from_utf8_lossy(&said));
            match jobs.is_empty() || force {
                true => Ok(Reach::Answers),
                false => Err(Error::new(format!(
                    "a job of another user runs there ({}); wait for its end, or add --force",
                    jobs.into_iter().collect::<Vec<_>>().join(", ")
                ))),
            }
        }
        Err(_) if !greets(spec) => Ok(Reach::Silent),
        Err(_) if force => Ok(Reach::Silent),
        Err(error) => Err(Error::new(format!(
            "it is alive, but cannot be asked whether others' jobs run there ({error}); mend that, or add \
             --force"
        ))),
    }
}

/// Whether the host's ssh server greets, though it may not let us in.
fn greets(spec: &HostSpec) -> bool {
    let mut command = Command::new("ssh");
    command.args(["-G", "--", &spec.target.host]).stdin(Stdio::null()).stderr(Stdio::null());
    let said = command.output().map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let said = said.unwrap_or_default();
    let value = |key: &str| {
        let mut values = said.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        values.next().map(str::to_owned)
    };
    let host = value("hostname").unwrap_or_else(|| spec.target.host.clone());
    let port = value("port").and_then(|port| port.parse().ok()).unwrap_or(22_u16);
    let addresses = (host.as_str(), port).to_socket_addrs();
    addresses.into_iter().flatten().any(|address| {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, GREETING) else { return false };
        let mut greeting = [0; 4];
        stream.set_read_timeout(Some(GREETING)).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && greeting == *b"SSH-"
    })
}

/// Users but the first line's whose jobs are in the list below it: `pid ppid user arguments`.
fn jobs_of_others(text: &str) -> BTreeSet<String> {
    let mut lines = text.lines();
    let own = lines.next().unwrap_or_default().trim();
    let mut parents: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut processes = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace();
        let (Some(pid), Some(parent), Some(user), Some(program)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let second = words.next().unwrap_or_default();
        processes.push((pid, user, program.rsplit('/').next().unwrap_or(program), second));
        parents.entry(parent).or_default().insert(user);
    }
    let mut found = BTreeSet::new();
    for (pid, user, program, second) in processes {
        let children = || parents.get(pid).into_iter().flatten().copied();
        if LAUNCHERS.contains(&program) {
            found.insert(user);
        } else if program == "wiglaf" && second == "host-agent" {
            // One that only says how the host is has none.
            found.extend(children());
        } else if program == "slurmstepd:" {
            // root's, of a job of its children's.
            found.extend(children().filter(|user| *user != "root"));
        }
    }
    found.into_iter().filter(|user| *user != own).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_others_are_seen_and_own_ones_are_not() {
        let others = |list: &str| {
            let text = format!("ann\n    1 0 root /sbin/init\n{list}");
            jobs_of_others(&text).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(others("10 1 bob /usr/bin/orted -mca x\n"), ["bob"]);
        assert_eq!(others("10 1 bob wiglaf host-agent\n11 10 bob ./hello\n"), ["bob"]);
        assert_eq!(others("20 1 root slurmstepd: [12.batch]\n21 20 cid /bin/sh job\n"), ["cid"]);
        let none: [&str; 0] = [];
        assert_eq!(
            others("10 1 ann /usr/bin/orted\n11 1 bob wiglaf host-agent\n12 1 bob vim\n"),
            none
        );
        assert_eq!(others("20 1 root slurmstepd: [12.extern]\n21 20 root sleep 1\n"), none);
    }
}
