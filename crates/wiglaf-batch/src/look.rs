//! What Slurm says of nodes and jobs, in plain words and with what to type next.

use serde::Serialize;

use crate::node::REASON;
use crate::owner;

/// What sinfo is asked to print. The reason comes last, because it holds anything.
pub const NODES_FORMAT: &str = "%N|%T|%c|%m|%E";
/// What squeue is asked to print. The job's name comes last.
pub const JOBS_FORMAT: &str = "%i|%u|%P|%T|%D|%M|%l|%N|%r|%j";

/// How a user calls what repairs.
#[derive(Debug, Clone)]
pub struct Commands {
    /// Slurm's scontrol on the head.
    pub scontrol: String,
    /// What starts anew what has ended on a node.
    pub renew: String,
}

/// A node as Slurm sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeState {
    /// Its name.
    pub name: String,
    /// Slurm's word for its state, without marks; `asleep`, `falling asleep` or `waking` where Slurm says so.
    pub state: String,
    /// Whether it answers.
    pub answers: bool,
    /// Processors for jobs.
    pub cpus: String,
    /// Memory for jobs, in MiB.
    pub memory_mib: String,
    /// The reason that Slurm gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// That it is its owner's now and takes no jobs, which is nothing wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What is wrong, in plain words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// What to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A job as Slurm sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobState {
    /// Its number.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// Its partition.
    pub partition: String,
    /// Slurm's word for its state.
    pub state: String,
    /// How many nodes it has or wants.
    pub nodes: String,
    /// For how long it has run.
    pub time: String,
    /// For how long it may.
    pub limit: String,
    /// Which nodes it has.
    pub on: String,
    /// Its name.
    pub name: String,
    /// Why it waits, in plain words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

/// Marks that sinfo puts behind a state. A star is for a node that does not answer.
const MARKS: &[char] = &['*', '~', '#', '!', '%', '$', '@', '^', '-', '+'];

/// Marks of nodes that sleep while no job wants them, in words.
const SLEEP: [(char, &str); 3] = [('~', "asleep"), ('%', "falling asleep"), ('#', "waking")];

/// The nodes in what sinfo printed; each once, though it stands there for every partition that has it.
#[must_use]
pub fn nodes(printed: &str, commands: &Commands) -> Vec<NodeState> {
    let mut nodes: Vec<NodeState> = Vec::new();
    for line in printed.lines() {
        let parts: Vec<&str> = line.splitn(5, '|').map(str::trim).collect();
        let [name, state, cpus, memory, reason] = parts[..] else { continue };
        if nodes.iter().any(|node| node.name == name) {
            continue;
        }
        let reason = Some(reason).filter(|reason| !["", "none", "(null)"].contains(reason));
        let (word, answers) = (state.trim_end_matches(MARKS), !state.contains('*'));
        let owners = reason.and_then(|reason| reason.strip_prefix(owner::REASON));
        let owner = owners
            .filter(|_| answers && word.starts_with("drain"))
            .map(|why| format!("{name} makes way for its owner: {why}; no job begins there"));
        let is_well = ["idle", "mixed", "allocated"].contains(&word);
        let sleeps = SLEEP.iter().find(|(mark, _)| is_well && state.contains(*mark));
        let wrong = match owner {
            Some(_) => None,
            // Slurm has sent it to sleep, or wakes it.
            None if sleeps.is_some() => None,
            None => of_node(name, word, answers, reason, commands),
        };
        let (says, fix) = wrong.unzip();
        nodes.push(NodeState {
            name: name.to_owned(),
            state: sleeps.map_or(word, |(_, word)| word).to_owned(),
            answers: answers || sleeps.is_some(),
            cpus: cpus.to_owned(),
            memory_mib: memory.to_owned(),
            reason: reason.map(str::to_owned),
            owner,
            says,
            fix,
        });
    }
    nodes
}

/// What is wrong with a node, and what to type; nothing of one that is well.
fn of_node(
    name: &str,
    state: &str,
    answers: bool,
    reason: Option<&str>,
    commands: &Commands,
) -> Option<(String, String)> {
    let resume = || format!("{} update NodeName={name} State=RESUME", commands.scontrol);
    let has = |part: &str| reason.is_some_and(|reason| reason.contains(part));
    let is_out = ["down", "drained", "draining", "fail", "failing", "error"].contains(&state);
    if state == "unknown" {
        let says = format!("{name}: its slurmd has not answered since slurmctld was started");
        return Some((says, commands.renew.clone()));
    }
    if !is_out {
        let says = format!("{name} has stopped answering; it is given up soon if it stays silent");
        return (!answers).then(|| (says, commands.renew.clone()));
    }
    let is_owners = has(owner::REASON);
    let (says, fix) = if has("Not responding") || (!answers && (reason.is_none() || is_owners)) {
        (
            "does not answer: it is off, its cable is out, or its slurmd has ended".to_owned(),
            commands.renew.clone(),
        )
    } else if let Some(why) = reason.and_then(|reason| reason.strip_prefix(REASON)) {
        let how = if state == "draining" { "takes no further jobs" } else { "takes no jobs" };
        (format!("{how}: {why}"), resume())
    } else if has("unexpectedly rebooted") {
        ("was started anew while Slurm counted on it; its job is lost".to_owned(), resume())
    } else if has("Low RealMemory") {
        ("has less memory than slurm.conf says".to_owned(), commands.renew.clone())
    } else if has("Low socket") || has("Low CPUs") {
        ("has fewer processors than slurm.conf says".to_owned(), commands.renew.clone())
    } else if has("Kill task failed") {
        ("still has processes of a job that was to end; look with `ps` there".to_owned(), resume())
    } else if has("Prolog error") || has("Epilog error") {
        ("failed to prepare or clean up for a job; its slurmd's log says why".to_owned(), resume())
    } else {
        let reason = reason.unwrap_or("no reason was given");
        let how = if state == "draining" { "takes no further jobs" } else { "takes no jobs" };
        (format!("{how}; somebody said: {reason}"), resume())
    };
    Some((format!("{name} {says}"), fix))
}

/// The jobs in what squeue printed.
#[must_use]
pub fn jobs(printed: &str) -> Vec<JobState> {
    let mut jobs = Vec::new();
    for line in printed.lines() {
        let parts: Vec<&str> = line.splitn(10, '|').map(str::trim).collect();
        let [id, user, partition, state, nodes, time, limit, on, reason, name] = parts[..] else {
            continue;
        };
        let text = str::to_owned;
        jobs.push(JobState {
            id: text(id),
            user: text(user),
            partition: text(partition),
            state: text(&state.to_lowercase()),
            nodes: text(nodes),
            time: text(time),
            limit: text(limit),
            on: text(on),
            name: text(name),
            says: match state {
                "PENDING" => Some(waits_for(reason)),
                "SUSPENDED" => Some(STANDS_STILL.to_owned()),
                _ => None,
            },
        });
    }
    jobs
}

/// What is said where nobody takes what slurmctld has to note.
pub(crate) fn not_noted(daemon: &str, head: &str) -> String {
    format!(
        "{daemon} has ended on {head}: sacct does not answer; slurmctld keeps what is to be noted until it runs again"
    )
}

/// What a suspended job waits for.
const STANDS_STILL: &str =
    "stands still: the owner of one of its PCs is there, or somebody has suspended it";

/// Why a job waits.
pub(crate) fn waits_for(reason: &str) -> String {
    // Slurm adds the nodes in question to some.
    let word = reason.split([',', ' ']).next().unwrap_or_default();
    let says = match word {
        "Resources" => "waits until enough nodes are free",
        "Priority" => "waits for jobs that came before it",
        "Dependency" => "waits for another job to end",
        "DependencyNeverSatisfied" => "waits for a job that failed; it never starts: `scancel` it",
        "BeginTime" => {
            "starts at a time that was named, or soon after it was sent back to the queue"
        }
        "JobHeldUser" => "is held; let it go with `scontrol release`",
        "JobHeldAdmin" => "is held by an administrator",
        "PartitionTimeLimit" => "wants more time than its partition gives; lower --time",
        "PartitionNodeLimit" => "wants more nodes than its partition has",
        "PartitionDown" | "PartitionInactive" => "waits for its partition, which is switched off",
        "ReqNodeNotAvail" => "waits for a node that is down or taken out of use",
        "Nodes" => "waits for nodes that are down or taken out of use",
        "launch" => {
            "could not be started, and is held; see the node's slurmd log, then `scontrol release`"
        }
        "None" | "" => "has just been submitted",
        _ => return format!("waits ({reason})"),
    };
    says.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Commands {
        Commands { scontrol: "scontrol".to_owned(), renew: "wiglaf up --batch".to_owned() }
    }

    #[test]
    fn a_node_in_two_partitions_is_told_once_and_is_well_without_words() {
        let nodes =
            nodes("pc1|idle|4|900|none\npc2|mixed|4|900|none\npc1|idle|4|900|none\n", &commands());
        assert_eq!(nodes.len(), 2);
        assert!(nodes.iter().all(|node| node.answers && node.says.is_none() && node.fix.is_none()));
    }

    #[test]
    fn what_is_wrong_with_a_node_is_a_sentence_with_a_command() {
        for (line, says, fix) in [
            ("pc1|down*|4|900|Not responding", "pc1 does not answer", "wiglaf up --batch"),
            ("pc1|idle*|4|900|none", "pc1 has stopped answering", "wiglaf up --batch"),
            ("pc1|unknown|4|900|none", "has not answered since", "wiglaf up --batch"),
            (
                "pc1|drained|4|900|fan | broken",
                "somebody said: fan | broken",
                "NodeName=pc1 State=RESUME",
            ),
            (
                "pc1|drained|4|900|wiglaf: /tmp has 3 MiB left of the 64 that it takes; make room there",
                "pc1 takes no jobs: /tmp has 3 MiB left",
                "NodeName=pc1 State=RESUME",
            ),
            ("pc1|draining|4|900|fan", "no further jobs", "State=RESUME"),
            ("pc1|drained|4|900|Low RealMemory", "less memory", "wiglaf up"),
            ("pc1|drained|4|900|Kill task failed", "processes of a job", "State=RESUME"),
            ("pc1|down|4|900|Node unexpectedly rebooted", "started anew", "State=RESUME"),
        ] {
            let [node] = &nodes(line, &commands())[..] else { panic!("{line}") };
            assert!(node.says.as_deref().is_some_and(|text| text.contains(says)), "{node:?}");
            assert!(node.fix.as_deref().is_some_and(|text| text.contains(fix)), "{node:?}");
        }
        assert_eq!(nodes("nonsense\n\n", &commands()), []);
    }

    #[test]
    fn node_of_an_owner_who_is_there_is_well() {
        let owners = |state: &str| {
            let line = format!("pc1|{state}|4|900|wiglaf owner: dora is there");
            nodes(&line, &commands()).remove(0)
        };
        let node = owners("draining");
        assert_eq!((&node.says, &node.fix), (&None, &None));
        let says = "pc1 makes way for its owner: dora is there; no job begins there";
        assert_eq!(node.owner.as_deref(), Some(says));
        let silent = owners("drained*");
        assert!(silent.says.is_some_and(|says| says.contains("does not answer")));
        assert_eq!(silent.owner, None);
    }

    #[test]
    fn node_that_sleeps_or_wakes_is_well() {
        for (state, word) in
            [("idle~", "asleep"), ("idle%", "falling asleep"), ("allocated#*", "waking")]
        {
            let [node] = &nodes(&format!("pc1|{state}|4|900|none"), &commands())[..] else {
                panic!()
            };
            assert_eq!((node.state.as_str(), node.answers, &node.says), (word, true, &None));
        }
        let [node] = &nodes("pc1|down~|4|900|ResumeTimeout reached", &commands())[..] else {
            panic!()
        };
        assert!(node.says.is_some());
    }

    #[test]
    fn waiting_jobs_say_what_for() {
        let printed = "7|ann|main|RUNNING|2|0:10|1:00:00|pc[1-2]|None|a|b\n\
                       8|bob|main|PENDING|4|0:00|1:00:00||Resources|big\n\
                       9|bob|main|PENDING|4|0:00|1:00:00||ReqNodeNotAvail, UnavailableNodes:pc3|x\n\
                       10|bob|main|PENDING|4|0:00|1:00:00||AssocGrpCpuLimit|x\n";
        let jobs = jobs(printed);
        let says: Vec<_> = jobs.iter().map(|job| job.says.as_deref().unwrap_or("-")).collect();
        assert_eq!(
            says,
            [
                "-",
                "waits until enough nodes are free",
                "waits for a node that is down or taken out of use",
                "waits (AssocGrpCpuLimit)"
            ]
        );
        assert_eq!((jobs[0].name.as_str(), jobs[0].on.as_str()), ("a|b", "pc[1-2]"));
    }
}
