//! The picture: speed against message size, as the 2004 report's Figure 2,
//! and the latency of small messages below it.
//!
//! Everything is placed by hand on a canvas of known size rather than by a
//! charting layout: that needs no font metrics, so the SVG can be drawn on a
//! machine without fonts, and nothing can overlap that was not put there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontFamily, FontStyle, FontTransform, IntoFont, RGBColor, ShapeStyle, TextStyle,
    register_font,
};

use super::scale::{Scale, length_ticks, round_ticks};
use super::table::length;
use crate::error::{BenchError, Result, file_error};
use crate::launch::Transport;
use crate::pingpong::Report;

/// The Debian package with the font that the PNG needs.
pub const FONT_PACKAGE: &str = "fonts-dejavu-core";

const FONT_FILE: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
const FONT_NAME: &str = "DejaVu Sans";

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 1060;
const LEFT: i32 = 92;
const RIGHT: i32 = WIDTH - 40;
const LEGEND_TOP: i32 = 66;
const LEGEND_ROW: i32 = 26;
const LEGEND_COLUMNS: i32 = 4;
/// The latency panel ends here, where the curves leave latency for bandwidth.
const SMALL_LEN_MAX: u64 = 4096;

const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(226, 226, 226);

/// What to draw: curves with their names.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    subtitle: String,
    curves: Vec<Curve>,
}

#[derive(Debug, Clone, PartialEq)]
struct Curve {
    label: String,
    look: Look,
    /// Length in bytes, half round trip in microseconds.
    points: Vec<(u64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    color: RGBColor,
    marker: Marker,
    width: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Disc,
    Square,
    Triangle,
    Diamond,
    Ring,
}

/// Colours that people with any kind of colour vision tell apart (Okabe and
/// Ito's), and a marker each for those who print in grey.
fn look(transport: Transport) -> Look {
    let (color, marker, width) = match transport {
        Transport::Wiglaf => (RGBColor(0, 114, 178), Marker::Disc, 3),
        Transport::Tcp => (RGBColor(213, 94, 0), Marker::Square, 2),
        Transport::Ucx => (RGBColor(0, 158, 115), Marker::Triangle, 2),
        Transport::OfiTcp => (RGBColor(204, 121, 167), Marker::Diamond, 2),
        Transport::Serial => (RGBColor(86, 180, 233), Marker::Ring, 2),
    };
    Look { color, marker, width }
}

/// Floors stay in the background: grey, thin, open markers.
fn floor_look(place: usize) -> Look {
    let greys = [RGBColor(90, 90, 90), RGBColor(140, 140, 140), RGBColor(175, 175, 175)];
    Look { color: greys[place % greys.len()], marker: Marker::Ring, width: 1 }
}

impl Picture {
    /// The picture of a ping-pong.
    pub fn of(report: &Report) -> Self {
        let mut curves: Vec<Curve> = report
            .contenders
            .iter()
            .map(|c| Curve {
                label: c.label.clone(),
                look: look(c.transport),
                points: c.points.iter().map(|p| (p.len, p.half_round_trip.p50_us)).collect(),
            })
            .collect();
        let mut links: Vec<&str> = report.floors.iter().map(|f| f.link.as_str()).collect();
        links.dedup();
        for (place, link) in links.into_iter().enumerate() {
            let here = report.floors.iter().filter(|f| f.link == link);
            curves.push(Curve {
                label: format!("bare {link}"),
                look: floor_look(place),
                points: here.map(|f| (f.len, f.half_round_trip.p50_us)).collect(),
            });
        }
        let facts = &report.facts;
        let mtu = facts.nodes.get("mtu").map(|m| format!(", MTU {m}")).unwrap_or_default();
        let subtitle = format!(
            "medians of {} interleaved rounds, {} cores, {}{mtu}, {}",
            report.rounds,
            facts.cores,
            facts.kernel,
            facts.date.split('T').next().unwrap_or_default()
        );
        Self { subtitle, curves }
    }
}

/// Draws the picture as SVG.
///
/// # Errors
/// When the file cannot be written.
pub fn draw_svg(picture: &Picture, path: &Path) -> Result<()> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size()).into_drawing_area();
        draw(picture, &area)?;
    }
    fs::write(path, text).map_err(file_error(path))
}

/// Draws the picture as PNG.
///
/// # Errors
/// When there is no font or the file cannot be written.
pub fn draw_png(picture: &Picture, path: &Path) -> Result<()> {
    load_font()?;
    let area = BitMapBackend::new(path, size()).into_drawing_area();
    draw(picture, &area)
}

fn size() -> (u32, u32) {
    (WIDTH.unsigned_abs(), HEIGHT.unsigned_abs())
}

fn load_font() -> Result<()> {
    static LOADED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let outcome = LOADED.get_or_init(|| {
        let bytes = fs::read(PathBuf::from(FONT_FILE))
            .map_err(|_| format!("no font for the PNG; `apt-get install {FONT_PACKAGE}`"))?;
        // The font lives as long as the process: it is registered for good.
        register_font(FONT_NAME, FontStyle::Normal, Box::leak(bytes.into_boxed_slice()))
            .map_err(|_| format!("{FONT_FILE} is not a usable font"))
    });
    outcome.clone().map_err(BenchError::Picture)
}

type Area<B> = DrawingArea<B, Shift>;

fn draw<B: DrawingBackend>(picture: &Picture, area: &Area<B>) -> Result<()> {
    let pen = Pen { area };
    let painted = pen.paint(picture);
    let done = painted.and_then(|()| area.present().map_err(|e| e.to_string()));
    done.map_err(BenchError::Picture)
}

type Painted = std::result::Result<(), String>;

struct Pen<'a, B: DrawingBackend> {
    area: &'a Area<B>,
}

/// A panel's axes.
struct Panel {
    top: i32,
    bottom: i32,
    x: Scale,
    y: Scale,
    x_ticks: Vec<u64>,
    y_ticks: Vec<f64>,
    x_title: &'static str,
    y_title: &'static str,
    title: String,
}

impl<B: DrawingBackend> Pen<'_, B> {
    fn paint(&self, picture: &Picture) -> Painted {
        self.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        self.text("Speed against message size", (LEFT, 12), 24, INK, (HPos::Left, VPos::Top))?;
        self.text(&picture.subtitle, (LEFT, 42), 14, FAINT, (HPos::Left, VPos::Top))?;
        self.legend(&picture.curves)?;
        let legend_rows = (picture.curves.len() as i32 + LEGEND_COLUMNS - 1) / LEGEND_COLUMNS;
        let top = LEGEND_TOP + legend_rows * LEGEND_ROW + 34;
        let middle = top + (HEIGHT - top) * 52 / 100;
        let rates = rate_curves(&picture.curves);
        let times = time_curves(&picture.curves);
        self.panel(&rate_panel(&rates, top, middle - 66), &rates)?;
        self.panel(&time_panel(&times, middle + 30, HEIGHT - 58), &times)
    }

    fn legend(&self, curves: &[Curve]) -> Painted {
        let column_width = (RIGHT - LEFT) / LEGEND_COLUMNS;
        for (place, curve) in (0i32..).zip(curves) {
            let x = LEFT + place % LEGEND_COLUMNS * column_width;
            let y = LEGEND_TOP + place / LEGEND_COLUMNS * LEGEND_ROW + 12;
            self.line(&[(x, y), (x + 34, y)], curve.look.color, curve.look.width)?;
            self.marker((x + 17, y), curve.look)?;
            self.text(&curve.label, (x + 42, y), 15, INK, (HPos::Left, VPos::Center))?;
        }
        Ok(())
    }

    fn panel(&self, panel: &Panel, curves: &[(Look, Vec<(f64, f64)>)]) -> Painted {
        let Panel { top, bottom, .. } = *panel;
        self.text(&panel.title, (LEFT, top - 10), 16, INK, (HPos::Left, VPos::Bottom))?;
        for &tick in &panel.y_ticks {
            let y = panel.y.pixel(tick);
            self.line(&[(LEFT, y), (RIGHT, y)], GRID, 1)?;
            self.text(&plain(tick), (LEFT - 9, y), 14, INK, (HPos::Right, VPos::Center))?;
        }
        for &tick in &panel.x_ticks {
            let x = panel.x.pixel(tick as f64);
            self.line(&[(x, top), (x, bottom)], GRID, 1)?;
            self.text(&length(tick), (x, bottom + 9), 14, INK, (HPos::Center, VPos::Top))?;
        }
        self.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom)], INK, 1)?;
        let middle = i32::midpoint(LEFT, RIGHT);
        self.text(panel.x_title, (middle, bottom + 30), 15, INK, (HPos::Center, VPos::Top))?;
        self.upward(panel.y_title, (20, i32::midpoint(top, bottom)))?;
        // Ours last, so that it lies on top.
        for (look, points) in curves.iter().rev() {
            let at: Vec<_> =
                points.iter().map(|(x, y)| (panel.x.pixel(*x), panel.y.pixel(*y))).collect();
            self.line(&at, look.color, look.width)?;
            at.iter().try_for_each(|p| self.marker(*p, *look))?;
        }
        Ok(())
    }

    fn line(&self, points: &[(i32, i32)], color: RGBColor, width: u32) -> Painted {
        let path = PathElement::new(points.to_vec(), color.stroke_width(width));
        self.area.draw(&path).map_err(|e| e.to_string())
    }

    fn marker(&self, (x, y): (i32, i32), look: Look) -> Painted {
        let fill: ShapeStyle = look.color.filled();
        let drawn = match look.marker {
            Marker::Disc => self.area.draw(&Circle::new((x, y), 5, fill)),
            Marker::Square => {
                self.area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], fill))
            }
            Marker::Triangle => self
                .area
                .draw(&Polygon::new(vec![(x, y - 6), (x + 6, y + 5), (x - 6, y + 5)], fill)),
            Marker::Diamond => self
                .area
                .draw(&Polygon::new(vec![(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], fill)),
            Marker::Ring => self.area.draw(&Circle::new((x, y), 4, look.color.stroke_width(1))),
        };
        drawn.map_err(|e| e.to_string())
    }

    fn text(
        &self,
        text: &str,
        at: (i32, i32),
        size: i32,
        color: RGBColor,
        (h, v): (HPos, VPos),
    ) -> Painted {
        let style = self.style(size, color).pos(Pos::new(h, v));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| e.to_string())
    }

    fn upward(&self, text: &str, at: (i32, i32)) -> Painted {
        let style = self
            .style(15, INK)
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|e| e.to_string())
    }

    fn style(&self, size: i32, color: RGBColor) -> TextStyle<'static> {
        (FontFamily::Name(FONT_NAME), size).into_font().color(&color)
    }
}

/// A number without a tail of noughts.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

type Drawn = Vec<(Look, Vec<(f64, f64)>)>;

/// Bandwidth in MB/s.
fn rate_curves(curves: &[Curve]) -> Drawn {
    let rate = |&(len, us): &(u64, f64)| (len > 0).then(|| (len as f64, len as f64 / us));
    curves.iter().map(|c| (c.look, c.points.iter().filter_map(rate).collect())).collect()
}

/// Half round trips of small messages in microseconds. An empty message has
/// no place on a logarithmic axis.
fn time_curves(curves: &[Curve]) -> Drawn {
    let small = |p: &&(u64, f64)| (1..=SMALL_LEN_MAX).contains(&p.0);
    let points = |c: &Curve| c.points.iter().filter(small).map(|p| (p.0 as f64, p.1)).collect();
    curves.iter().map(|c| (c.look, points(c))).collect()
}

/// The least and the greatest length, and the greatest value.
fn extent(curves: &Drawn) -> ((u64, u64), f64) {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let least = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let greatest = points().map(|p| p.0).fold(1.0, f64::max);
    let value = points().map(|p| p.1).fold(0.0, f64::max);
    ((if least.is_finite() { least as u64 } else { 1 }, greatest as u64), value)
}

fn panel(
    curves: &Drawn,
    (top, bottom): (i32, i32),
    tick_ratio: u64,
    title: String,
    y_title: &'static str,
) -> Panel {
    let ((min, max), value) = extent(curves);
    let y_ticks = round_ticks(value, 6);
    let y_max = y_ticks.last().copied().unwrap_or(1.0);
    Panel {
        top,
        bottom,
        x: Scale::logarithmic((min as f64, max as f64), (LEFT, RIGHT)),
        y: Scale::linear((0.0, y_max), (bottom, top)),
        x_ticks: length_ticks(min, max, tick_ratio),
        y_ticks,
        x_title: "message size",
        y_title,
        title,
    }
}

fn rate_panel(curves: &Drawn, top: i32, bottom: i32) -> Panel {
    panel(curves, (top, bottom), 4, "Bandwidth".to_owned(), "10^6 bytes per second")
}

fn time_panel(curves: &Drawn, top: i32, bottom: i32) -> Panel {
    let title = format!("Latency of messages up to {}", length(SMALL_LEN_MAX));
    panel(curves, (top, bottom), 2, title, "half round trip, microseconds")
}

#[cfg(test)]
mod tests;
