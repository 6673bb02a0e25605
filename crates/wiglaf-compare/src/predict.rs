//! Times that a simulation predicts for a program, as a table: time, speed-up, and Amdahl's serial part for each
//! transport against the number of nodes.

use serde::{Deserialize, Serialize};
use wiglaf_base::table::Table;

use crate::fit::{Amdahl, COUNTS_MIN, amdahl};
use crate::report::{Way, median};
use crate::table::{LAYOUT, fits};

/// Names the layout of the file.
pub const SCHEMA: &str = "wiglaf-predict 1";

/// All that was predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// [`SCHEMA`].
    pub schema: String,
    /// Program and arguments, or those that a trace is of.
    pub command: Vec<String>,
    /// What was typed, without the first word; nothing in files of versions that did not keep it.
    #[serde(default)]
    pub typed: Vec<String>,
    /// When.
    pub date: String,
    /// The described cluster, in words.
    pub cluster: String,
    /// What simulated.
    pub simulator: String,
    /// Whether a trace was replayed.
    pub is_replay: bool,
    /// Whether each node has the same work on any number of nodes.
    pub is_weak: bool,
    /// Whether the time is a number that the program printed.
    pub is_printed: bool,
    /// Ranks on a node.
    pub cores: usize,
    /// Transports, in the order of the tables.
    pub ways: Vec<Way>,
    /// Numbers of nodes, fewest first.
    pub nodes: Vec<usize>,
    /// Simulations that came to their end.
    pub runs: Vec<Simulated>,
    /// Those that did not: way, nodes and reason.
    pub failures: Vec<(usize, usize, String)>,
}

/// One simulation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// The transport, by its place in the list.
    pub way: usize,
    /// On so many nodes.
    pub nodes: usize,
    /// The predicted time.
    pub seconds: f64,
    /// How long the simulation took.
    pub took_s: f64,
}

impl Prediction {
    /// The median of one way's simulations on so many nodes.
    #[must_use]
    pub fn seconds(&self, way: usize, nodes: usize) -> Option<f64> {
        let of = self.runs.iter().filter(|run| (run.way, run.nodes) == (way, nodes));
        median(of.map(|run| run.seconds).collect())
    }

    /// Time on the fewest nodes over that on these; where each node has the same work, times the nodes that there
    /// are more.
    #[must_use]
    pub fn speed_up(&self, way: usize, nodes: usize) -> Option<f64> {
        let fewest = *self.nodes.first()?;
        let ratio = self.seconds(way, fewest)? / self.seconds(way, nodes)?;
        Some(if self.is_weak { ratio * nodes as f64 / fewest as f64 } else { ratio })
    }

    /// Amdahl's law through one way's times.
    #[must_use]
    pub fn fit(&self, way: usize) -> Option<Amdahl> {
        if self.is_weak {
            return None;
        }
        let of = self.runs.iter().filter(|run| run.way == way);
        amdahl(&of.map(|run| (run.nodes, run.seconds)).collect::<Vec<_>>())
    }

    /// The tables of times, of speed-up, and of P.
    #[must_use]
    pub fn tables(&self) -> String {
        let fewest = self.nodes.first().copied().unwrap_or_default();
        let what = if self.is_printed { "seconds that it prints" } else { "wall time" };
        let scaled = if self.is_weak { "scaled " } else { "" };
        let labels = self.ways.iter().map(|way| way.label.clone());
        let mut table = Table::new(LAYOUT, std::iter::once("nodes".to_owned()).chain(labels));
        for nodes in &self.nodes {
            let cells = (0..self.ways.len()).map(|way| {
                let up = self.speed_up(way, *nodes);
                let up = up.map_or(String::new(), |times| format!(" ({times:.2})"));
                let time = self.seconds(way, *nodes).map(seconds);
                time.map_or("-".to_owned(), |time| time + &up)
            });
            table.row(std::iter::once(nodes.to_string()).chain(cells));
        }
        let table = table.text();
        let fits = fits(&self.ways, |way| self.fit(way), seconds);
        let fits = fits.map_or(String::new(), |fits| format!("\n{fits}"));
        format!("Predicted {what} in s, and {scaled}speed-up against {fewest} nodes\n{table}{fits}")
    }

    /// What a reader must not take from the tables, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "the wire loses no frames and the switch has buffers enough; ranks start together, and MPI_Init takes \
             no time"
                .to_owned(),
        ];
        notes.push(match self.is_replay {
            true => "computation takes as long as when the trace was recorded, and the messages are those \
                     of that run"
                .to_owned(),
            false => "computation is timed on this machine one rank after another: caches and memory that ranks \
                      of a node share are not in it"
                .to_owned(),
        });
        if self.cores > 1 {
            notes.push(
                "messages within a node have their own latency and rate, and the network's overheads".to_owned(),
            );
        }
        if let Some(most) = self.nodes.last().filter(|most| **most > 8) {
            notes.push(format!(
                "predictions were held against measurements on 2 to 8 nodes, not on {most}"
            ));
        }
        let count = |way: usize| {
            self.nodes.iter().filter(|nodes| self.seconds(way, **nodes).is_some()).count()
        };
        // Times that grow with the nodes may leave no fit at all.
        let is_strange = |way: &usize| match self.fit(*way) {
            Some(fit) => !(-0.01..=1.0).contains(&fit.serial_part),
            None => !self.is_weak && count(*way) >= COUNTS_MIN,
        };
        let strange = (0..self.ways.len()).filter(is_strange);
        let strange: Vec<&str> = strange.map(|way| self.ways[way].label.as_str()).collect();
        if !strange.is_empty() {
            notes.push(format!(
                "over {} the times are not Amdahl's: more nodes make them longer, or shorter than their share; \
                 where work grows with the nodes, take --weak",
                strange.join(", ")
            ));
        }
        notes
    }
}

/// Three digits or more.
fn seconds(value: f64) -> String {
    match value {
        ..0.001 => format!("{value:.6}"),
        ..0.1 => format!("{value:.5}"),
        ..10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Prediction {
        let way = |word: &str, label: &str| Way { word: word.into(), label: label.into() };
        let run = |way: usize, nodes: usize, p: f64| Simulated {
            way,
            nodes,
            seconds: 80.0 * (p + (1.0 - p) / nodes as f64),
            took_s: 1.0,
        };
        let runs = [2, 4, 16].map(|nodes| [run(0, nodes, 0.25), run(1, nodes, 0.125)]);
        Prediction {
            schema: SCHEMA.into(),
            command: vec!["prog".into()],
            typed: vec![],
            date: "today".into(),
            cluster: "ports of 1gbit".into(),
            simulator: "SimGrid 3.32".into(),
            is_replay: false,
            is_weak: false,
            is_printed: false,
            cores: 1,
            ways: vec![way("tcp", "TCP"), way("wiglaf", "Wiglaf")],
            nodes: vec![2, 4, 16],
            runs: runs.concat(),
            failures: vec![],
        }
    }

    #[test]
    fn tables_have_times_speed_up_and_the_serial_part() {
        let text = sample().tables();
        for line in [
            "  nodes          TCP       Wiglaf",
            "  2      50.0 (1.00)  45.0 (1.00)",
            "  16     23.8 (2.11)  14.4 (3.13)",
            "  TCP     0.250 +- 0.000  80.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_was_not_simulated_is_a_dash_and_rounds_give_their_median() {
        let mut one = sample();
        one.runs.retain(|run| run.nodes != 16 || run.way == 1);
        assert!(one.tables().contains("  16               -  14.4 (3.13)"), "{}", one.tables());
        let again = one.runs[0];
        one.runs.push(Simulated { seconds: 52.0, ..again });
        one.runs.push(Simulated { seconds: 99.0, ..again });
        assert_eq!(one.seconds(0, 2), Some(52.0));
        assert_eq!(one.fit(0), None);
    }

    #[test]
    fn same_work_on_each_node_has_a_scaled_speed_up() {
        let mut one = sample();
        one.is_weak = true;
        one.runs.iter_mut().for_each(|run| run.seconds = 5.0);
        assert_eq!((one.speed_up(0, 16), one.fit(0)), (Some(8.0), None));
        assert!(one.tables().contains("scaled speed-up against 2 nodes"));
    }

    #[test]
    fn what_it_cannot_tell_is_said() {
        let mut one = sample();
        let said = one.notes().join("\n");
        assert!(said.contains("not on 16") && !said.contains("Amdahl's"), "{said}");
        (one.is_replay, one.cores) = (true, 2);
        one.runs.iter_mut().for_each(|run| run.seconds = run.nodes as f64);
        let said = one.notes().join("\n");
        for part in ["trace was recorded", "within a node", "over TCP, Wiglaf the times are not"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn seconds_have_digits_enough() {
        assert_eq!(
            [0.000_123_4, 0.012_34, 1.2345, 123.45].map(seconds),
            ["0.000123", "0.01234", "1.234", "123.5"]
        );
    }
}
