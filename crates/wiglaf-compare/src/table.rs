//! The report's tables, and what they cannot tell.

use wiglaf_base::table::Table;

use crate::fit::{Amdahl, COUNTS_MIN};
use crate::report::{Place, Report, Way, nodes};

/// How all tables here stand: names to the left, figures to the right.
pub(crate) const LAYOUT: &str = "  <  >";

/// All tables: for each number of nodes that of the times, then those of the speed-up.
#[must_use]
pub fn tables(report: &Report) -> String {
    let mut text = String::new();
    for (place, of) in report.places.iter().enumerate() {
        let table = times(report, place);
        if !table.is_empty() {
            text += &format!("{}\n{}\n", title(report, of), table.text());
        }
    }
    if report.places.len() > 1 {
        let first = nodes(report.places[0].nodes);
        let what = if report.is_weak { "Weak scaling: scaled speed-up" } else { "Wall speed-up" };
        let table = speed_up(report).text();
        text += &format!("{what} against {first}, and efficiency\n{table}\n");
        text.extend(
            fits(&report.ways, |way| report.fit(way), |s| format!("{s:.2}")).map(|t| t + "\n"),
        );
    }
    text
}

fn title(report: &Report, place: &Place) -> String {
    let ranks = if place.ranks == 1 { "1 rank" } else { &format!("{} ranks", place.ranks) };
    let rounds = report.rounds;
    let of =
        if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
    format!("{ranks} on {}, {of}", nodes(place.nodes))
}

fn times(report: &Report, place: usize) -> Table {
    let head = ["", "wall s", "CPU s", "wall - CPU s", "wall / CPU", "wall from - to s", "rounds"];
    let mut table = Table::new(LAYOUT, head);
    for (way, of) in report.ways.iter().enumerate() {
        let Some(point) = report.point(way, place) else { continue };
        let [least, greatest] = point.range_s;
        table.row([
            of.label.clone(),
            format!("{:.2}", point.wall_s),
            format!("{:.2}", point.cpu_s),
            format!("{:.2}", point.idle_s),
            format!("{:.2}", point.ratio),
            format!("{least:.2} - {greatest:.2}"),
            point.runs.to_string(),
        ]);
    }
    table
}

fn speed_up(report: &Report) -> Table {
    let counts = report.places.iter().map(|place| nodes(place.nodes));
    let mut table = Table::new(LAYOUT, std::iter::once(String::new()).chain(counts));
    for (way, of) in report.ways.iter().enumerate() {
        let cells = (0..report.places.len()).map(|place| match report.speed_up(way, place) {
            Some((speed_up, efficiency)) => format!("{speed_up:.2} ({:.0} %)", 100.0 * efficiency),
            None => "-".to_owned(),
        });
        table.row(std::iter::once(of.label.clone()).chain(cells));
    }
    table
}

/// Amdahl's law through the times of each way that it fits, if any.
pub(crate) fn fits(
    ways: &[Way],
    fit: impl Fn(usize) -> Option<Amdahl>,
    seconds: impl Fn(f64) -> String,
) -> Option<String> {
    let mut table = Table::new(LAYOUT, ["", "P", "T1 s"]);
    for (way, of) in ways.iter().enumerate() {
        if let Some(fit) = fit(way) {
            let part = format!("{:.3} +- {:.3}", fit.serial_part, fit.error);
            table.row([of.label.clone(), part, seconds(fit.one_node_s)]);
        }
    }
    let text = || format!("Amdahl: T(n) = T1 (P + (1 - P)/n), least squares\n{}", table.text());
    (!table.is_empty()).then(text)
}

/// What a reader must not take from the tables, one sentence each.
#[must_use]
pub fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let crowded = report.places.iter().rev().find_map(|place| Some((place, place.cores?)));
    if let Some((place, cores)) = crowded.filter(|(place, cores)| place.ranks > *cores) {
        notes.push(format!(
            "{} ranks on {} share {cores} core{}: their times say nothing of nodes with cores of their own",
            place.ranks,
            nodes(place.nodes),
            if cores == 1 { "" } else { "s" },
        ));
    }
    if report.is_emulated {
        notes.push(
            "the nodes are emulated on one machine: they share its memory and caches, and no network card \
             is in the way"
                .to_owned(),
        );
    }
    // A rank of one thread takes as much as its life at most; clocks differ by a little.
    let has_threads = |place: usize| {
        let mut points = (0..report.ways.len()).filter_map(|way| report.point(way, place));
        points.any(|point| point.cpu_s > 1.05 * point.wall_s)
    };
    if (0..report.places.len()).any(has_threads) {
        notes.push(
            "ranks took more CPU time than they lived, so they have threads: wall - CPU does not say how long they \
             waited"
                .to_owned(),
        );
    }
    if report.rounds == 1 {
        notes.push(
            "one round has no spread, so no difference is certain: take --repeats".to_owned(),
        );
    } else {
        (0..report.places.len()).for_each(|place| notes.extend(close(report, place)));
    }
    if !report.is_weak && report.places.len() > 1 && report.places.len() < COUNTS_MIN {
        notes.push(format!(
            "{} numbers of nodes are too few for a fit of P, which takes {COUNTS_MIN} or more",
            report.places.len()
        ));
    }
    for (way, of) in report.ways.iter().enumerate() {
        if let Some(fit) = report.fit(way).filter(|fit| fit.serial_part < -2.0 * fit.error) {
            notes.push(format!(
                "over {} P is {:.3}, below 0: more nodes gave more than their share (caches, memory), \
                 which Amdahl's law does not know",
                of.label, fit.serial_part
            ));
        }
    }
    notes
}

/// Which ways are not told apart on a place: medians that differ by less than the wider range.
fn close(report: &Report, place: usize) -> Vec<String> {
    let points = report.ways.iter().enumerate();
    let points: Vec<_> =
        points.filter_map(|(way, of)| Some((of, report.point(way, place)?))).collect();
    let mut notes = Vec::new();
    for (at, (one, a)) in points.iter().enumerate() {
        for (other, b) in &points[at + 1..] {
            let difference = (a.wall_s - b.wall_s).abs();
            let spread = (a.range_s[1] - a.range_s[0]).max(b.range_s[1] - b.range_s[0]);
            if difference < spread {
                notes.push(format!(
                    "on {} {} and {} are not told apart: they differ by {difference:.2} s, and rounds of one \
                     of them by {spread:.2} s",
                    nodes(report.places[place].nodes),
                    one.label,
                    other.label
                ));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn tables_have_a_row_for_each_way() {
        let text = tables(&sample());
        let expected = "\
2 ranks on 2 nodes, medians of 2 rounds
          wall s  CPU s  wall - CPU s  wall / CPU  wall from - to s  rounds
  TCP      61.65  32.00         29.65        1.93     61.60 - 61.70       2
  Wiglaf   55.15  32.00         23.15        1.72     55.10 - 55.20       2
";
        assert!(text.contains(expected), "{text}");
        let expected = "\
Wall speed-up against 1 node, and efficiency
                1 node      2 nodes      4 nodes
  TCP     1.00 (100 %)  1.62 (81 %)  2.36 (59 %)
  Wiglaf  1.00 (100 %)  1.82 (91 %)  3.07 (77 %)
";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("  TCP     0.231 +- 0.0"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let said = "on 1 node TCP and Wiglaf are not told apart: they differ by 0.00 s, and rounds of one of \
                    them by 0.10 s";
        assert_eq!(notes(&sample()), [said]);
    }

    #[test]
    fn what_the_tables_cannot_tell_is_said() {
        let mut report = sample();
        report.is_emulated = true;
        report.places[2].cores = Some(2);
        report.runs[0].wall_s -= 80.0;
        let said = notes(&report).join("\n");
        for part in [
            "4 ranks on 4 nodes share 2 cores",
            "emulated",
            "on 1 node TCP and Wiglaf are not told",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // One of its runs has less wall time than CPU time now.
        assert!(said.contains("threads") && !notes(&sample()).join("\n").contains("threads"));
        report.runs.iter_mut().for_each(|run| run.user_s = 500.0);
        assert!(notes(&report).join("\n").contains("they have threads"));
        report.rounds = 1;
        report.places.truncate(2);
        report.runs.retain(|run| run.place < 2);
        let said = notes(&report).join("\n");
        assert!(
            said.contains("one round has no spread")
                && said.contains("2 numbers of nodes are too few")
        );
        assert!(!tables(&report).contains("Amdahl"));
    }

    #[test]
    fn weak_scaling_has_no_fit_and_asks_for_none() {
        let mut report = sample();
        report.is_weak = true;
        let text = tables(&report);
        assert!(text.contains("Weak scaling: scaled speed-up against 1 node"), "{text}");
        assert!(!text.contains("Amdahl"), "{text}");
        report.places.truncate(2);
        report.runs.retain(|run| run.place < 2);
        assert!(!notes(&report).iter().any(|note| note.contains("fit")));
    }

    #[test]
    fn serial_part_below_nothing_is_explained() {
        let mut report = sample();
        report.runs.iter_mut().filter(|run| run.place == 2).for_each(|run| run.wall_s = 5.0);
        assert!(notes(&report).iter().any(|note| note.contains("below 0")), "{:?}", notes(&report));
    }

    #[test]
    fn way_that_never_ran_has_no_row() {
        let mut report = sample();
        report.runs.retain(|run| run.way == 1);
        let text = tables(&report);
        assert!(text.contains("TCP") && text.contains('-') && !text.contains("NaN"), "{text}");
    }
}
