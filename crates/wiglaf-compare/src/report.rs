//! All runs of a comparison, and what follows from them.

use serde::{Deserialize, Serialize};

use crate::fit::{Amdahl, amdahl};

/// A way in which messages travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// As users write it.
    pub word: String,
    /// Its name in tables.
    pub label: String,
}

/// Nodes, and the ranks on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Nodes.
    pub nodes: usize,
    /// Ranks on all of them.
    pub ranks: usize,
    /// Cores that those nodes have together, where that is known.
    pub cores: Option<usize>,
}

/// One run that came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its way, by its place in the list.
    pub way: usize,
    /// Its nodes, by their place in the list.
    pub place: usize,
    /// From 1.
    pub round: usize,
    /// The longest life of a rank.
    pub wall_s: f64,
    /// User time of all ranks.
    pub user_s: f64,
    /// System time of all ranks.
    pub system_s: f64,
    /// From `wiglaf run` to its end: with the launcher's time.
    pub job_s: f64,
    /// The number that was checked.
    pub value: Option<f64>,
}

/// A run that did not, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its way.
    pub way: usize,
    /// Its nodes; all where the way was not to be had at all.
    pub place: Option<usize>,
    /// Its round; none where the way was not to be had at all.
    pub round: Option<usize>,
    /// One sentence.
    pub reason: String,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What of the file's form.
    pub schema: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// What was typed, without the first word; nothing in files of versions that did not keep it.
    #[serde(default)]
    pub typed: Vec<String>,
    /// What brings such nodes up before, where they are emulated and were there.
    #[serde(default)]
    pub before: Option<String>,
    /// When.
    pub date: String,
    /// What the nodes are.
    pub cluster: String,
    /// Whether the nodes are made on one machine.
    pub is_emulated: bool,
    /// Whether each node has the same work on any number of nodes.
    #[serde(default)]
    pub is_weak: bool,
    /// Rounds that were wanted.
    pub rounds: usize,
    /// Ways, in the order of the tables.
    pub ways: Vec<Way>,
    /// Nodes, fewest first.
    pub places: Vec<Place>,
    /// What came to its end.
    pub runs: Vec<Run>,
    /// What did not.
    pub failures: Vec<Failure>,
}

/// The medians of one way on one number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Runs in it.
    pub runs: usize,
    /// Wall time.
    pub wall_s: f64,
    /// The shortest and the longest.
    pub range_s: [f64; 2],
    /// User and system time of a rank, as the mean over ranks.
    pub cpu_s: f64,
    /// What the ranks spent in neither, as the mean over ranks: the median of wall less CPU.
    pub idle_s: f64,
    /// Wall over CPU.
    pub ratio: f64,
}

impl Report {
    /// The runs of one way on one place.
    fn of(&self, way: usize, place: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| (run.way, run.place) == (way, place))
    }

    /// The medians, if any run came to its end.
    #[must_use]
    pub fn point(&self, way: usize, place: usize) -> Option<Point> {
        let ranks = self.places.get(place)?.ranks.max(1) as f64;
        let cpu = |run: &Run| (run.user_s + run.system_s) / ranks;
        let all = |of: &dyn Fn(&Run) -> f64| self.of(way, place).map(of).collect::<Vec<f64>>();
        let walls = all(&|run| run.wall_s);
        let least = walls.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = walls.iter().copied().fold(0.0, f64::max);
        Some(Point {
            runs: walls.len(),
            wall_s: median(walls)?,
            range_s: [least, greatest],
            cpu_s: median(all(&cpu))?,
            idle_s: median(all(&|run| run.wall_s - cpu(run)))?,
            ratio: median(all(&|run| run.wall_s / cpu(run)))?,
        })
    }

    /// Wall time on the fewest nodes over that on these; and that speed-up over the times that there are
    /// more nodes. Where each node has the same work, the second is the ratio of the wall times, and the first is it
    /// times the nodes: scaled speed-up (J. Gustafson, Reevaluating Amdahl's law, CACM 31, 1988).
    #[must_use]
    pub fn speed_up(&self, way: usize, place: usize) -> Option<(f64, f64)> {
        let (first, here) = (self.point(way, 0)?, self.point(way, place)?);
        let ratio = first.wall_s / here.wall_s;
        let times = self.places[place].nodes as f64 / self.places[0].nodes as f64;
        Some(if self.is_weak { (ratio * times, ratio) } else { (ratio, ratio / times) })
    }

    /// Wiglaf's figure over that of the other way whose figure is the least, and that way's name.
    #[must_use]
    pub fn against_the_best(
        &self,
        place: usize,
        of: impl Fn(&Point) -> f64,
    ) -> Option<(f64, &str)> {
        let at = |way| self.point(way, place).map(|point| of(&point));
        let ours = self.ways.iter().position(|way| way.word == "wiglaf").and_then(at)?;
        let rivals = (0..self.ways.len()).filter(|&way| !self.ways[way].word.starts_with("wiglaf"));
        let rivals = rivals.filter_map(|way| Some((at(way)?, self.ways[way].label.as_str())));
        let (best, name) = rivals.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((ours / best, name))
    }

    /// Amdahl's law through all runs of a way; it knows no work that grows with the nodes.
    #[must_use]
    pub fn fit(&self, way: usize) -> Option<Amdahl> {
        if self.is_weak {
            return None;
        }
        let runs = self.runs.iter().filter(|run| run.way == way);
        let runs: Vec<_> = runs.map(|run| (self.places[run.place].nodes, run.wall_s)).collect();
        amdahl(&runs)
    }

    /// Whether no more runs of a way on a place are worth their time.
    #[must_use]
    pub fn has_failed(&self, way: usize, place: usize) -> bool {
        let meant =
            |failure: &&Failure| failure.way == way && failure.place.is_none_or(|p| p == place);
        self.failures.iter().any(|failure| meant(&failure))
    }

    /// How a run is named in a sentence.
    #[must_use]
    pub fn name(&self, run: &Run) -> String {
        let place = &self.places[run.place];
        format!("round {} over {} on {}", run.round, self.ways[run.way].label, nodes(place.nodes))
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn nodes(count: usize) -> String {
    format!("{count} node{}", if count == 1 { "" } else { "s" })
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 0 => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// TCP and Wiglaf on 1, 2 and 4 nodes of one core, by laws with P = 0.23 and 0.10; two rounds.
    pub(crate) fn sample() -> Report {
        let mut runs = Vec::new();
        for (way, part) in [0.23, 0.10].into_iter().enumerate() {
            for (place, nodes) in [1.0, 2.0, 4.0].into_iter().enumerate() {
                for round in 1..=2 {
                    let wall_s = 100.0 * (part + (1.0 - part) / nodes) + round as f64 / 10.0;
                    let (user_s, system_s) = (60.0, 4.0);
                    let (job_s, value) = (wall_s + 1.0, Some(-1.5));
                    runs.push(Run { way, place, round, wall_s, user_s, system_s, job_s, value });
                }
            }
        }
        let way = |word: &str, label: &str| Way { word: word.into(), label: label.into() };
        let place = |nodes| Place { nodes, ranks: nodes, cores: Some(nodes) };
        Report {
            schema: "wiglaf-compare 1".into(),
            command: vec!["./prog".into(), "in.dat".into()],
            typed: Vec::new(),
            before: None,
            date: "2026-01-02T03:04:05Z".into(),
            cluster: "pc[1-4]".into(),
            is_emulated: false,
            is_weak: false,
            rounds: 2,
            ways: vec![way("tcp", "TCP"), way("wiglaf", "Wiglaf")],
            places: [1, 2, 4].map(place).into(),
            runs,
            failures: Vec::new(),
        }
    }

    #[test]
    fn point_has_medians_and_the_mean_of_ranks() {
        let point = sample().point(0, 1).unwrap();
        assert_eq!(point.runs, 2);
        assert!((point.wall_s - 61.65).abs() < 1e-9 && (point.cpu_s - 32.0).abs() < 1e-9);
        assert!((point.idle_s - 29.65).abs() < 1e-9, "{point:?}");
        assert!((point.range_s[1] - point.range_s[0] - 0.1).abs() < 1e-9);
    }

    #[test]
    fn speed_up_and_efficiency_are_against_the_fewest_nodes() {
        let mut report = sample();
        let (speed_up, efficiency) = report.speed_up(1, 2).unwrap();
        assert!((speed_up - 100.15 / 32.65).abs() < 1e-9);
        assert!((efficiency - speed_up / 4.0).abs() < 1e-9);
        report.places[0].nodes = 2;
        report.places[1].nodes = 3;
        assert!((report.speed_up(1, 2).unwrap().1 - speed_up / 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_best_rival_is_the_one_to_beat() {
        let mut report = sample();
        let (ratio, name) = report.against_the_best(2, |point| point.wall_s).unwrap();
        assert!((ratio - 32.65 / 42.4).abs() < 1e-9 && name == "TCP", "{ratio} {name}");
        report.ways[0].word = "wiglaf".into();
        assert_eq!(report.against_the_best(2, |point| point.wall_s), None);
    }

    #[test]
    fn fits_are_of_each_way() {
        let report = sample();
        for (way, part) in [0.23, 0.10].into_iter().enumerate() {
            let fit = report.fit(way).unwrap();
            assert!((fit.serial_part - part).abs() < 0.01 && fit.error > 0.0, "{fit:?}");
        }
    }

    #[test]
    fn same_work_on_each_node_is_efficient_where_it_takes_the_same_time() {
        let mut report = sample();
        report.is_weak = true;
        for run in &mut report.runs {
            run.wall_s = if run.place == 2 { 12.5 } else { 10.0 };
        }
        assert_eq!(
            [0, 1, 2].map(|place| report.speed_up(0, place)),
            [Some((1.0, 1.0)), Some((2.0, 1.0)), Some((3.2, 0.8))]
        );
        assert_eq!(report.fit(0), None);
    }

    #[test]
    fn failure_ends_its_way_on_its_nodes_alone() {
        let mut report = sample();
        let failure = |place| Failure { way: 1, place, round: None, reason: "no".into() };
        report.failures = vec![failure(Some(2))];
        assert!(report.has_failed(1, 2) && !report.has_failed(1, 1) && !report.has_failed(0, 2));
        report.failures = vec![failure(None)];
        assert!(report.has_failed(1, 0) && !report.has_failed(0, 0));
    }

    #[test]
    fn median_is_that_of_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    }
}
