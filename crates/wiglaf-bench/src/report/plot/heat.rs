//! Ratios of collectives as a map: a row for each operation, a column for each length.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::collectives::{lengths, operations};
use super::super::table::length;
use super::{Draw, FAINT, INK, Painted, Pen, RGBColor, RIGHT, subtitle};
use crate::collectives::{By, Report};

const TOP: i32 = 118;
const ROW: i32 = 30;
/// Where the squares begin, behind the operations' names.
const FROM: i32 = 160;
/// A ratio of this, or of one by it, has the full colour.
const FULL: f64 = 3.0;
/// Wiglaf is faster; the rival is.
const COLORS: [RGBColor; 2] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0)];

/// The map of a report.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Heat {
    subtitle: String,
    operations: Vec<String>,
    lengths: Vec<u64>,
    /// Row, column, ratio.
    cells: Vec<(usize, usize, f64)>,
}

impl Heat {
    /// Means, as the table on a terminal.
    pub(in crate::report) fn of(report: &Report) -> Self {
        let operations: Vec<String> = operations(report).into_iter().map(str::to_owned).collect();
        let lengths = lengths(report);
        let cells = report.ratios(By::Mean).into_iter().filter_map(|one| {
            let row = operations.iter().position(|name| *name == one.ours.operation)?;
            let column = lengths.iter().position(|len| *len == one.ours.len)?;
            Some((row, column, one.ratio))
        });
        let cells = cells.collect();
        let ranks = format!("{} ranks on {} nodes, ", report.ranks, report.nodes);
        let subtitle = ranks + &subtitle(&report.facts, report.rounds);
        Self { subtitle, operations, lengths, cells }
    }
}

/// White at 1, the full colour from [`FULL`] on, evenly by the ratio's logarithm.
fn color(ratio: f64) -> RGBColor {
    let depth = (ratio.ln() / FULL.ln()).clamp(-1.0, 1.0);
    let full = COLORS[usize::from(depth > 0.0)];
    let mix = |part: u8| (255.0 - (255.0 - f64::from(part)) * depth.abs()).round() as u8;
    RGBColor(mix(full.0), mix(full.1), mix(full.2))
}

impl Draw for Heat {
    fn height(&self) -> i32 {
        TOP + self.operations.len() as i32 * ROW + 60
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        let upper_left = (HPos::Left, VPos::Top);
        pen.text(
            "Collectives: Wiglaf's time by the best TCP rival's",
            (20, 12),
            24,
            INK,
            upper_left,
        )?;
        pen.text(&self.subtitle, (20, 42), 13, FAINT, upper_left)?;
        let keys = [
            (1.0 / FULL, "a third"),
            (0.57, ""),
            (1.0, "the same"),
            (1.75, ""),
            (FULL, "three times"),
        ];
        for ((ratio, word), x) in keys.into_iter().zip((FROM..).step_by(110)) {
            pen.bar((x, 72), (x + 24, 90), color(ratio))?;
            pen.text(word, (x + 30, 81), 14, INK, (HPos::Left, VPos::Center))?;
        }
        let width = (RIGHT - FROM) / (self.lengths.len().max(1) as i32);
        let left = |column: usize| FROM + column as i32 * width;
        let top = |row: usize| TOP + row as i32 * ROW;
        for (row, name) in self.operations.iter().enumerate() {
            let at = (FROM - 12, top(row) + ROW / 2);
            pen.text(name, at, 15, INK, (HPos::Right, VPos::Center))?;
        }
        for (column, &len) in self.lengths.iter().enumerate() {
            let at = (left(column) + width / 2, top(self.operations.len()) + 10);
            pen.text(&length(len), at, 14, INK, (HPos::Center, VPos::Top))?;
        }
        for &(row, column, ratio) in &self.cells {
            let (x, y) = (left(column), top(row));
            pen.bar((x + 1, y + 1), (x + width - 1, y + ROW - 1), color(ratio))?;
            let deep = !(1.0 / 2.2..=2.2).contains(&ratio);
            let ink = if deep { RGBColor(255, 255, 255) } else { INK };
            let at = (x + width / 2, y + ROW / 2);
            pen.text(&format!("{ratio:.2}"), at, 14, ink, (HPos::Center, VPos::Center))?;
        }
        let at = (i32::midpoint(FROM, RIGHT), top(self.operations.len()) + 34);
        pen.text("message size", at, 15, INK, (HPos::Center, VPos::Top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_and_loss_have_colours_of_their_own() {
        assert_eq!(color(1.0), RGBColor(255, 255, 255));
        assert_eq!([color(0.1), color(10.0)], COLORS);
        assert_ne!(color(0.9), color(1.1));
    }

    #[test]
    fn every_cell_has_its_square() {
        let heat = Heat::of(&crate::collectives::tests::report());
        assert_eq!(heat.cells, [(0, 0, 0.5), (0, 1, 2.0), (1, 0, 1.0)]);
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("picture.svg");
        super::super::draw_svg(&heat, &file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        for word in ["ialltoall", "1 KiB", "2.00", "0.50"] {
            assert!(text.contains(word), "{word}");
        }
    }
}
