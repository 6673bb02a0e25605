//! Remote files as bars: a panel for each row of the comparison, a bar for each
//! way.

use plotters::backend::DrawingBackend;
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::scale::{Scale, round_ticks};
use super::{
    Draw, FAINT, GRID, INK, LEFT, Painted, Pen, RGBColor, Rectangle, WIDTH, plain, subtitle,
};
use crate::files::{Report, Row, Way};

const BAR: i32 = 22;
const TOP: i32 = 112;
/// Title above a panel and axis below it.
const PANEL_EXTRA: i32 = 96;
const GAP: i32 = 40;
const LABEL_WIDTH: i32 = 138;
/// For the figure behind the longest bar.
const FIGURE_WIDTH: i32 = 64;

const OURS: RGBColor = RGBColor(0, 114, 178);
const RIVAL: RGBColor = RGBColor(213, 94, 0);
const FLOOR: RGBColor = RGBColor(125, 125, 125);

/// Bars in four panels.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Bars {
    subtitle: String,
    panels: Vec<Panel>,
}

#[derive(Debug, Clone, PartialEq)]
struct Panel {
    title: String,
    unit: &'static str,
    bars: Vec<(Way, f64)>,
}

impl Bars {
    /// The picture of a comparison of remote files.
    pub(in crate::report) fn of_files(report: &Report) -> Self {
        let panel = |row: Row, title: String, unit, value: fn(&crate::files::Point) -> f64| {
            let bars = report.contenders.iter().filter_map(|c| Some((c.way, value(c.at(row)?))));
            Panel { title, unit, bars: bars.collect() }
        };
        let files = report.sizes.small_files;
        let panels = vec![
            panel(Row::Write, "Sequential write, 1 MiB calls".into(), MB_PER_S, |p| {
                p.megabytes_per_s
            }),
            panel(Row::Read, "Sequential read, 1 MiB calls".into(), MB_PER_S, |p| {
                p.megabytes_per_s
            }),
            panel(Row::Read4K, "Read of 4 KiB, median".into(), "microseconds", |p| p.call.p50_us),
            panel(
                Row::SmallFiles,
                format!("stat, open, read, close of {files} small files"),
                "seconds",
                |p| p.whole_s,
            ),
        ];
        Self { subtitle: subtitle(&report.facts, report.rounds), panels }
    }

    /// The space that a row of panels takes.
    fn row_height(&self) -> i32 {
        let bars = self.panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
        bars as i32 * BAR + PANEL_EXTRA
    }
}

const MB_PER_S: &str = "million bytes per second";

fn color(way: Way) -> RGBColor {
    match way {
        Way::Local | Way::Tcp => FLOOR,
        Way::Sshfs | Way::SshfsFast | Way::SshfsDirect | Way::Nfs => RIVAL,
        Way::Wiglaf | Way::WiglafBuffered | Way::WiglafMount => OURS,
    }
}

impl Draw for Bars {
    fn height(&self) -> i32 {
        TOP + 2 * self.row_height()
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        let margin = LEFT / 3;
        let upper_left = (HPos::Left, VPos::Top);
        pen.text("Files of another node", (margin, 12), 24, INK, upper_left)?;
        pen.text(&self.subtitle, (margin, 42), 14, FAINT, upper_left)?;
        let legend = [("Wiglaf", OURS), ("rivals", RIVAL), ("floors", FLOOR)];
        for ((name, color), x) in legend.into_iter().zip((margin..).step_by(110)) {
            pen.bar((x, 70), (x + 16, 84), color)?;
            pen.text(name, (x + 22, 77), 15, INK, (HPos::Left, VPos::Center))?;
        }
        let width = (WIDTH - 2 * margin - GAP) / 2;
        for (place, panel) in (0i32..).zip(&self.panels) {
            let left = margin + place % 2 * (width + GAP);
            let top = TOP + place / 2 * self.row_height();
            pen.bars(panel, (left, top), width)?;
        }
        Ok(())
    }
}

impl<B: DrawingBackend> Pen<'_, B> {
    pub(super) fn bar(&self, from: (i32, i32), to: (i32, i32), color: RGBColor) -> Painted {
        let bar = Rectangle::new([self.zoomed(from), self.zoomed(to)], color.filled());
        self.area.draw(&bar).map_err(|e| e.to_string())
    }

    fn bars(&self, panel: &Panel, (left, top): (i32, i32), width: i32) -> Painted {
        self.text(&panel.title, (left, top), 16, INK, (HPos::Left, VPos::Top))?;
        let (top, bottom) = (top + 28, top + 28 + panel.bars.len() as i32 * BAR);
        let (from, to) = (left + LABEL_WIDTH, left + width - FIGURE_WIDTH);
        let most = panel.bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
        let ticks = round_ticks(most, 4);
        let scale = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (from, to));
        for &tick in &ticks {
            let x = scale.pixel(tick);
            self.line(&[(x, top), (x, bottom)], GRID, 1)?;
            self.text(&plain(tick), (x, bottom + 6), 13, INK, (HPos::Center, VPos::Top))?;
        }
        for (&(way, value), y) in panel.bars.iter().zip((top..).step_by(BAR as usize)) {
            let middle = y + BAR / 2;
            self.text(way.label(), (from - 8, middle), 14, INK, (HPos::Right, VPos::Center))?;
            let end = scale.pixel(value);
            self.bar((from, y + 4), (end.max(from + 1), y + BAR - 4), color(way))?;
            let figure = super::super::table::figure(value);
            self.text(&figure, (end + 6, middle), 13, INK, (HPos::Left, VPos::Center))?;
        }
        self.line(&[(from, top), (from, bottom)], INK, 1)?;
        let unit = (i32::midpoint(from, to), bottom + 26);
        self.text(panel.unit, unit, 13, FAINT, (HPos::Center, VPos::Top))
    }
}
