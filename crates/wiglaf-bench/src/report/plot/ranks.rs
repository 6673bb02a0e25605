//! What each rank of a run computed, and how long it was in MPI: a bar for each.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::scale::{Scale, round_ticks};
use super::{Draw, FAINT, GRID, INK, LEFT, Painted, Pen, RGBColor, RIGHT, plain};

const TOP: i32 = 120;
const ROW: i32 = 24;
/// More than these would be no picture.
const ROWS_MAX: usize = 64;
const COLORS: [(&str, RGBColor); 2] =
    [("computes", RGBColor(160, 160, 160)), ("in MPI", RGBColor(0, 114, 178))];

/// One rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankBar {
    /// What stands before it.
    pub label: String,
    /// Seconds of computing and of MPI.
    pub parts_s: [f64; 2],
}

/// Bars of ranks.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Ranks<'a> {
    pub(in crate::report) title: &'a str,
    pub(in crate::report) subtitle: &'a str,
    pub(in crate::report) bars: &'a [RankBar],
}

impl Ranks<'_> {
    /// Those that are drawn: of many, evenly chosen ones.
    fn shown(&self) -> Vec<&RankBar> {
        let step = self.bars.len().div_ceil(ROWS_MAX).max(1);
        self.bars.iter().step_by(step).collect()
    }
}

impl Draw for Ranks<'_> {
    fn height(&self) -> i32 {
        TOP + self.shown().len() as i32 * ROW + 70
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        let upper_left = (HPos::Left, VPos::Top);
        pen.text(self.title, (LEFT, 12), 24, INK, upper_left)?;
        pen.text(self.subtitle, (LEFT, 42), 13, FAINT, upper_left)?;
        for ((name, color), x) in COLORS.iter().zip((LEFT..).step_by(150)) {
            pen.bar((x, 76), (x + 16, 90), *color)?;
            pen.text(name, (x + 22, 83), 15, INK, (HPos::Left, VPos::Center))?;
        }
        let shown = self.shown();
        let bottom = TOP + shown.len() as i32 * ROW;
        let most = shown.iter().map(|bar| bar.parts_s.iter().sum::<f64>()).fold(0.0, f64::max);
        let ticks = round_ticks(most, 6);
        let x = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (LEFT, RIGHT));
        for &tick in &ticks {
            pen.line(&[(x.pixel(tick), TOP), (x.pixel(tick), bottom)], GRID, 1)?;
            let at = (x.pixel(tick), bottom + 8);
            pen.text(&plain(tick), at, 14, INK, (HPos::Center, VPos::Top))?;
        }
        for (bar, top) in shown.iter().zip((TOP..).step_by(ROW as usize)) {
            let mut from = 0.0;
            for (part, (_, color)) in bar.parts_s.iter().zip(COLORS) {
                let (left, right) = (x.pixel(from), x.pixel(from + part));
                pen.bar((left, top + 3), (right, top + ROW - 3), color)?;
                from += part;
            }
            let at = (LEFT - 10, top + ROW / 2);
            pen.text(&bar.label, at, 14, INK, (HPos::Right, VPos::Center))?;
        }
        pen.line(&[(LEFT, TOP), (LEFT, bottom), (RIGHT, bottom)], INK, 1)?;
        let middle = i32::midpoint(LEFT, RIGHT);
        pen.text("seconds", (middle, bottom + 30), 15, INK, (HPos::Center, VPos::Top))?;
        pen.upward("rank", (20, i32::midpoint(TOP, bottom)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_bar_and_of_many_some() {
        let bar = |number: usize| RankBar { label: number.to_string(), parts_s: [3.0, 1.0] };
        let bars: Vec<RankBar> = (0..1000).map(bar).collect();
        for (count, expected) in [(3, 3), (1000, 63)] {
            let ranks = Ranks { title: "prog", subtitle: "said", bars: &bars[..count] };
            assert_eq!(ranks.shown().len(), expected);
            let folder = tempfile::TempDir::new().unwrap();
            let file = folder.path().join("picture.svg");
            super::super::draw_svg(&ranks, &file).unwrap();
            let text = std::fs::read_to_string(file).unwrap();
            assert!(text.contains("in MPI") && text.contains("seconds"));
        }
    }
}
