//! A trace of a program's calls of MPI as a file: what `wiglaf profile --trace` writes and `wiglaf predict --trace`
//! replays. Lines of text: what it is, the program as JSON, for each rank a heading with the number of its actions and
//! the actions, and `end`, so that a file that was cut short is known.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::profile::Rank;

/// The first line.
const FIRST: &str = "wiglaf-trace 1";
/// The last.
const LAST: &str = "end";

/// What every rank did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The actions of each rank, in SimGrid's words without the rank.
    pub ranks: Vec<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    command: Vec<String>,
    ranks: usize,
}

impl Trace {
    /// Of all ranks of a run.
    ///
    /// # Errors
    /// Why it cannot be replayed, in one sentence.
    pub fn of(command: Vec<String>, ranks: &[Rank]) -> Result<Self, String> {
        let mut found = Vec::new();
        for number in 0..ranks.len() {
            let rank = ranks.iter().find(|rank| rank.rank == Some(number));
            let told = rank.and_then(|rank| Some((rank, rank.trace.as_ref()?)));
            let (rank, trace) = told.ok_or_else(|| format!("rank {number} left no trace"))?;
            if let Some(gap) = &rank.trace_gap {
                return Err(format!(
                    "rank {number} did what cannot be replayed (MPI_{gap}): only messages between named ranks and \
                     collective calls, on all ranks, can; build the program with smpicc instead"
                ));
            }
            found.push(trace.split_terminator(';').map(str::to_owned).collect());
        }
        Ok(Self { command, ranks: found })
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let head = Head { command: self.command.clone(), ranks: self.ranks.len() };
        let head = serde_json::to_string(&head).unwrap_or_default();
        let mut text = format!("{FIRST}\n{head}\n");
        for (rank, actions) in self.ranks.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "rank {rank} {}", actions.len());
            actions.iter().for_each(|action| text.extend([action.as_str(), "\n"]));
        }
        text + LAST + "\n"
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong with it, to be put behind its name.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        if lines.next() != Some(FIRST) {
            return Err("is no trace; record one with `wiglaf profile --trace FILE`".to_owned());
        }
        let cut = || "is cut short; record it again with `wiglaf profile --trace FILE`".to_owned();
        let head: Head =
            lines.next().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(cut)?;
        let mut ranks = Vec::new();
        for rank in 0..head.ranks {
            let heading = lines.next().ok_or_else(cut)?;
            let count = heading.strip_prefix(&format!("rank {rank} ")).and_then(|n| n.parse().ok());
            let count: usize = count.ok_or_else(cut)?;
            let actions: Vec<String> = lines.by_ref().take(count).map(str::to_owned).collect();
            if actions.len() < count {
                return Err(cut());
            }
            if let Some(wrong) = actions.iter().find(|action| !is_action(action)) {
                let shown: String = wrong.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(format!("has an action that no trace has: `{shown}`"));
            }
            ranks.push(actions);
        }
        match lines.next() {
            Some(LAST) if !ranks.is_empty() => Ok(Self { command: head.command, ranks }),
            _ => Err(cut()),
        }
    }

    /// The file of one rank, as SimGrid reads it.
    #[must_use]
    pub fn replayed(&self, rank: usize) -> String {
        let mut text = format!("{rank} init\n");
        for action in &self.ranks[rank] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{rank} {action}");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{rank} finalize");
        text
    }
}

/// A word and numbers.
fn is_action(action: &str) -> bool {
    const WORDS: [&str; 14] = [
        "compute",
        "send",
        "recv",
        "isend",
        "irecv",
        "wait",
        "barrier",
        "bcast",
        "reduce",
        "allreduce",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
    ];
    let mut words = action.split(' ');
    words.next().is_some_and(|word| WORDS.contains(&word))
        && words.all(|n| n.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Trace {
        let actions = |words: &str| words.split(';').map(str::to_owned).collect();
        Trace {
            command: vec!["./prog".into()],
            ranks: vec![actions("compute 12;send 1 7 8;barrier"), actions("recv 0 7 8;barrier")],
        }
    }

    #[test]
    fn file_is_read_as_it_was_written() {
        assert_eq!(Trace::read(&sample().text()), Ok(sample()));
        assert_eq!(sample().replayed(1), "1 init\n1 recv 0 7 8\n1 barrier\n1 finalize\n");
    }

    #[test]
    fn file_that_was_cut_anywhere_is_told() {
        let text = sample().text();
        for len in FIRST.len()..text.len() - 1 {
            let error = Trace::read(&text[..len]).unwrap_err();
            assert!(
                error.contains("cut short") || error.contains("that no trace has"),
                "{len}: {error}"
            );
        }
        assert!(Trace::read("").unwrap_err().contains("is no trace"));
        let wrong = text.replace("send 1 7 8", "send 1 7 $(x)");
        assert!(Trace::read(&wrong).unwrap_err().contains("that no trace has"));
    }
}
