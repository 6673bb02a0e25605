//! Tables of the integral transformation, in the form of 1999: seconds of CPU
//! and wall, wall speed-up and efficiency, against the number of nodes.

use wiglaf_base::table::Table;

use super::table::{figure, fold, push_folded, push_list};
use crate::transformation::{Report, Run};

/// A table: its title, what it shows of a run, and whether one node is shown.
type Column = (&'static str, fn(&Run) -> String);

const TABLES: [Column; 5] = [
    ("CPU seconds of the program, all ranks", |run| figure(run.cpu_s)),
    ("CPU seconds of the whole machine, file servers and mounts included", |run| {
        figure(run.machine_cpu_s)
    }),
    ("Wall seconds", |run| figure(run.wall_s)),
    ("Wall speed-up", |run| format!("{:.2}", run.speed_up)),
    ("Efficiency", |run| format!("{:.2}", run.efficiency)),
];

fn title(report: &Report) -> String {
    format!(
        "Integral transformation of HCNO, {}, {} functions, files on the disks of all nodes, \
         medians of {} rounds",
        report.basis, report.functions, report.rounds
    )
}

/// What must be known to read the tables.
fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = vec![format!(
        "Both sorts, both halves and the energy; every run found NWChem's correlation energy, \
         {:.9} hartree, to 1e-6",
        report.nwchem_hartree
    )];
    let (cores, most) = (report.facts.cores, report.nodes_max());
    if most > cores {
        remarks.push(format!(
            "These {most} nodes share {cores} cores: no speed-up above {cores} is possible on \
             {most} nodes, that is no efficiency above {:.2}",
            cores as f64 / most as f64
        ));
    }
    for nodes in 2..=most {
        let best = report.ways().into_iter().filter_map(|way| report.at(way, nodes));
        if let Some(best) = best.min_by(|a, b| a.wall_s.total_cmp(&b.wall_s)) {
            remarks.push(format!("Shortest on {nodes} nodes: {}", best.label));
        }
    }
    let absent = report.absent.iter();
    remarks.extend(absent.map(|a| format!("{} did not take part: {}", a.way.label(), a.reason)));
    remarks
}

/// Each table with its title: a row for each way, a column for 1, 2 and more nodes.
fn tables(report: &Report) -> impl Iterator<Item = (&'static str, Table)> {
    TABLES.into_iter().map(|(title, of)| {
        let nodes = 1..=report.nodes_max();
        let row = |name: &str, cell: &dyn Fn(usize) -> String| {
            std::iter::once(name.to_owned()).chain(nodes.clone().map(cell)).collect::<Vec<_>>()
        };
        let mut table = Table::new("<16 >8", row("nodes", &|nodes| nodes.to_string()));
        for way in report.ways() {
            let cell = |nodes| report.at(way, nodes).map_or_else(|| "-".to_owned(), of);
            table.row(row(way.label(), &cell));
        }
        (title, table)
    })
}

/// The transformation for a terminal.
pub(super) fn transformation_table(report: &Report) -> String {
    let mut text = fold(&title(report)) + "\n";
    text.extend(tables(report).map(|(title, table)| format!("\n{title}\n{}", table.text())));
    text.push('\n');
    push_folded(&mut text, remarks(report));
    text
}

/// The transformation for a document.
pub(super) fn transformation_markdown(report: &Report) -> String {
    let mut text = format!("{}. One node reads its own disk, whatever the way.\n", title(report));
    text.extend(tables(report).map(|(title, t)| format!("\n{title}:\n\n{}", t.markdown())));
    text.push('\n');
    push_list(&mut text, remarks(report));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformation::tests::sample;

    #[test]
    fn tables_have_a_row_for_each_way_and_fit_a_terminal() {
        let table = transformation_table(&sample());
        assert!(table.contains("\nWall speed-up\nnodes                   1        2\n"), "{table}");
        assert!(table.contains("\nWiglaf library       1.00     2.00\n"), "{table}");
        assert!(table.contains("\nNFS, libnfs          1.00     0.25\n"), "{table}");
        assert!(table.contains("Shortest on 2 nodes: Wiglaf library"), "{table}");
        assert!(table.contains("did not take part: sshfs is missing"), "{table}");
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }

    #[test]
    fn the_document_says_the_same() {
        let text = transformation_markdown(&sample());
        assert!(text.contains("| Wiglaf library | 5.00 | 2.50 |"), "{text}");
        assert!(text.contains("| nodes | 1 | 2 |\n|---|---:|---:|\n"), "{text}");
    }
}
