//! PCs go to sleep while no job wants them, and jobs wake them: Slurm's power saving.
//!
//! slurmctld only says that a node is to sleep. The service on the node ([`crate::owner`]) sees that and does it, unless
//! somebody is logged in: so the head needs no rights there. Magic packets from the head wake it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use wiglaf_base::HostList;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::network::Cidr;
use wiglaf_cluster::power::Mac;

use crate::outside::ask;

/// On the head: how each node is woken.
pub(crate) const FILE: &str = "/etc/wiglaf/batch/sleep.json";
/// Slurm's programs, on the head.
pub(crate) const SUSPEND: &str = "/etc/wiglaf/batch/suspend";
pub(crate) const RESUME: &str = "/etc/wiglaf/batch/resume";

/// What [`FILE`] says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waking {
    /// The network that they are in.
    pub network: Cidr,
    /// The address of each one's card there.
    pub cards: BTreeMap<String, Mac>,
}

impl Waking {
    /// Reads [`FILE`].
    ///
    /// # Errors
    /// When it is not there, or damaged.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(FILE).cannot(|| format!("read {FILE}"))?;
        serde_json::from_str(&text).map_err(|error| {
            Error::new(format!("{FILE} is damaged ({error}); run `wiglaf batch setup`"))
        })
    }

    /// The cards of these nodes, in Slurm's words.
    ///
    /// # Errors
    /// When one of them is not known.
    pub fn cards(&self, nodes: &str) -> Result<Vec<Mac>> {
        let card = |name: &String| {
            let card = self.cards.get(name).copied();
            card.ok_or_else(|| Error::new(format!("{FILE} does not say how {name} is woken")))
        };
        HostList::parse(nodes)?.names().iter().map(card).collect()
    }
}

/// The text of [`SUSPEND`].
pub(crate) fn suspend() -> String {
    "#!/bin/sh\n# Written by `wiglaf batch setup`: nothing is to be done here. Each node sees that it is to sleep.\nexit 0\n"
        .to_owned()
}

/// The text of [`RESUME`].
pub(crate) fn resume(program: &Path) -> String {
    let program = wiglaf_base::shell::quoted(&program.display().to_string());
    format!(
        "#!/bin/sh\n# Written by `wiglaf batch setup`: wakes these nodes. It returns at once.\n\
         [ -x {program} ] || exit 1\n{program} host-wake \"$1\" </dev/null >>/var/log/slurm/wiglaf-wake.log 2>&1 &\n"
    )
}

/// What Slurm has a node do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing of this.
    None,
    /// To fall asleep.
    Falling,
    /// To wake.
    Waking,
}

/// What has been done in a phase already.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    slept: bool,
    woke: bool,
}

/// slurmctld takes a node for awake when its slurmd says that it was started since: `-b` says so, and there are no jobs.
const AWAKE: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ -d /run/systemd/system ]; then
    systemctl set-environment WIGLAF_SLURMD=-b
    systemctl restart slurmd
    status=$?
    systemctl unset-environment WIGLAF_SLURMD
    exit $status
fi
read -r pid 2>/dev/null </run/slurmd.pid && read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = slurmd ] && {
    kill "$pid"
    for i in $(seq 100); do
        read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = slurmd ] || break
        sleep 0.1
    done
}
exec slurmd -b --conf-server "$2" -N "$1"
"#;

impl Sleeper {
    /// Does what Slurm has this node do, which it does under that head.
    pub(crate) fn round(&mut self, node: &str, head: &str) -> Result<()> {
        match phase(&ask("scontrol", &["show", "node", "-o", node])?) {
            Phase::None => *self = Self::default(),
            Phase::Falling if !self.slept && nobody_is_here() => {
                ask("systemctl", &["suspend", "--check-inhibitors=yes"])?;
                self.slept = true;
            }
            Phase::Waking if !self.woke => {
                let done = Command::new("sh").args(["-c", AWAKE, "wiglaf", node, head]).status();
                let done = done.cannot(|| "start slurmd anew".to_owned())?;
                self.woke = done.success();
            }
            Phase::Falling | Phase::Waking => {}
        }
        Ok(())
    }
}

/// Whether nobody is logged in, by any way.
fn nobody_is_here() -> bool {
    match ask("loginctl", &["list-sessions", "--no-legend"]) {
        Ok(said) => said.trim().is_empty(),
        Err(_) => ask("who", &[]).is_ok_and(|said| said.trim().is_empty()),
    }
}

/// What scontrol says of the node.
fn phase(said: &str) -> Phase {
    let state = said.split_whitespace().find_map(|word| word.strip_prefix("State="));
    let has = |word: &str| {
        state.is_some_and(|state| state.split('+').any(|part| part.trim_end_matches('*') == word))
    };
    match (has("POWERING_DOWN"), has("POWERING_UP")) {
        (true, _) => Phase::Falling,
        (_, true) => Phase::Waking,
        _ => Phase::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_has_a_node_do_is_read() {
        for (state, expected) in [
            ("IDLE+POWERING_DOWN", Phase::Falling),
            ("IDLE+DRAIN+POWERING_DOWN*", Phase::Falling),
            ("IDLE+POWERED_DOWN", Phase::None),
            ("ALLOCATED+POWERING_UP", Phase::Waking),
            ("MIXED", Phase::None),
        ] {
            let said = format!(
                "NodeName=pc2 Arch=x86_64 State={state} ThreadsPerCore=1 Reason=POWERING_UP\n"
            );
            assert_eq!(phase(&said), expected, "{state}");
        }
        assert_eq!(phase(""), Phase::None);
    }

    #[test]
    fn only_nodes_that_are_known_are_woken() {
        let text = r#"{"network":"192.168.77.0/24","cards":{"pc2":"00:1b:21:0a:0b:0c"}}"#;
        let waking: Waking = serde_json::from_str(text).unwrap();
        assert_eq!(waking.cards("pc2").unwrap().len(), 1);
        assert!(waking.cards("pc[2-3]").unwrap_err().to_string().contains("how pc3 is woken"));
        assert!(waking.cards("pc[2-").is_err());
    }
}
