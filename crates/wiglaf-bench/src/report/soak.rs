//! A long run as people see it: a panel for each series in a picture, a line for each in a
//! terminal.

use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{PathElement, Text};
use plotters::style::{Color, FontFamily, IntoFont, RGBColor};
use wiglaf_base::table::Table;

use crate::error::{BenchError, Result, file_error};
use crate::soak::{Sample, Trend, Verdict, curves};

const WIDTH: i32 = 900;
const PANEL: i32 = 130;
const LEFT: i32 = 110;
const RIGHT: i32 = WIDTH - 24;
const TOP: i32 = 30;
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(200, 200, 200);
const CURVE: RGBColor = RGBColor(20, 90, 160);
/// Columns of a curve in a terminal.
const COLUMNS: usize = 48;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws all series over time, one below the other.
///
/// # Errors
/// When the file cannot be written.
pub fn draw_soak(samples: &[Sample], path: &Path) -> Result<()> {
    let mut text = String::new();
    paint(samples, &mut text).map_err(BenchError::Picture)?;
    std::fs::write(path, text).map_err(file_error(path))
}

fn paint(samples: &[Sample], out: &mut String) -> std::result::Result<(), String> {
    let all: Vec<_> = curves(samples).collect();
    let height = TOP + PANEL * all.len() as i32;
    let area = SVGBackend::with_string(out, (WIDTH.unsigned_abs(), height.unsigned_abs()))
        .into_drawing_area();
    let line = |points: Vec<(i32, i32)>, color: RGBColor| {
        area.draw(&PathElement::new(points, color.stroke_width(1))).map_err(|e| e.to_string())
    };
    let text = |words: String, at: (i32, i32)| {
        let style = (FontFamily::SansSerif, 13).into_font().color(&INK);
        area.draw(&Text::new(words, at, style)).map_err(|e| e.to_string())
    };
    area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
    let end_s = samples.last().map_or(1.0, |last| last.at_s.max(1.0));
    for (number, (what, unit, points)) in all.iter().enumerate() {
        let top = TOP + PANEL * number as i32;
        let bottom = top + PANEL - 50;
        // From 0: a wiggle of a page is not to look like a mountain.
        let most = points.iter().map(|p| p.1).fold(1.0, f64::max);
        let place = |&(at_s, value): &(f64, f64)| {
            let x = LEFT + (f64::from(RIGHT - LEFT) * at_s / end_s) as i32;
            (x, bottom - (f64::from(bottom - top) * value / most) as i32)
        };
        text(format!("{what} {unit}"), (LEFT, top - 20))?;
        text(format!("{most}"), (10, top - 6))?;
        text("0".to_owned(), (10, bottom - 6))?;
        line(vec![(LEFT, bottom), (RIGHT, bottom)], FAINT)?;
        line(vec![(LEFT, top), (RIGHT, top)], FAINT)?;
        line(points.iter().map(place).collect(), CURVE)?;
        if number + 1 == all.len() {
            text("0 s".to_owned(), (LEFT, bottom + 8))?;
            text(format!("{end_s:.0} s"), (RIGHT - 50, bottom + 8))?;
        }
    }
    area.present().map_err(|e| e.to_string())
}

/// A line for each series: its course, its range in the second half, its slope and the verdict.
#[must_use]
pub fn soak_table(samples: &[Sample], trends: &[Trend]) -> String {
    let head = ["", "course", "second half", "growth an hour (99 %)", "verdict"];
    let mut table = Table::new("<25 <48 >20 >34  <", head);
    for ((what, unit, points), trend) in curves(samples).zip(trends) {
        let [low, _, high] = trend.range;
        let slope = trend.per_hour;
        let verdict = match trend.verdict {
            Verdict::Steady => "steady".to_owned(),
            Verdict::Grows => format!("GROWS, {:.0} more in its last tenth", trend.rise),
            Verdict::TooShort => "too short to tell".to_owned(),
        };
        let range = format!("{low:.0} to {high:.0}");
        let growth = format!("{:.1} ({:.1} to {:.1})", slope.median, slope.low, slope.high);
        table.row([format!("{what} {unit}"), course(&points), range, growth, verdict]);
    }
    // A curve takes more than a terminal's 80 columns leave.
    table.within(usize::MAX)
}

fn course(points: &[(f64, f64)]) -> String {
    let most = points.iter().map(|p| p.1).fold(1.0, f64::max);
    let each = points.len().div_ceil(COLUMNS).max(1);
    let bar = |group: &[(f64, f64)]| {
        let top = group.iter().map(|p| p.1).fold(0.0, f64::max);
        BARS[((top / most * 7.0).round() as usize).min(7)]
    };
    points.chunks(each).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::trends;

    #[test]
    fn all_series_are_drawn_and_told() {
        let samples: Vec<Sample> = (0..100)
            .map(|i| Sample {
                at_s: f64::from(i),
                job_rss_kib: 1000 + i as u64 * 10,
                ..Sample::default()
            })
            .collect();
        let table = soak_table(&samples, &trends(&samples));
        assert_eq!(table.lines().count(), 8);
        assert!(table.lines().nth(1).unwrap().contains("1500 to 1990"), "{table}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("soak.svg");
        draw_soak(&samples, &path).unwrap();
        let svg = std::fs::read_to_string(path).unwrap();
        assert!(svg.matches("<polyline").count() >= 7 && svg.contains("files in /dev/shm"));
    }
}
