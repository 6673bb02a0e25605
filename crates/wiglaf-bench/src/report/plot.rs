//! The picture: speed against message size, as the 2004 report's Figure 2,
//! and the latency of small messages below it.
//!
//! Everything is placed by hand on a canvas of known size rather than by a
//! charting layout: that needs no font metrics, so the SVG can be drawn on a
//! machine without fonts, and nothing can overlap that was not put there.

mod bars;
mod cases;
mod heat;
mod ranks;
mod speedup;

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
use crate::bandwidth::{self, Ways};
use crate::error::{BenchError, Result, file_error};
use crate::facts::Facts;
use crate::launch::Transport;
use crate::pingpong::Report;
pub(super) use bars::Bars;
pub(super) use cases::Cases;
pub(super) use heat::Heat;
pub use ranks::RankBar;
pub(super) use ranks::Ranks;
pub(super) use speedup::SpeedUp;
pub use speedup::{SpeedUpCurve, SpeedUpWords};

/// The Debian package with the font that the PNG needs.
pub(super) const FONT_PACKAGE: &str = "fonts-dejavu-core";

const FONT_FILE: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
const FONT_NAME: &str = "DejaVu Sans";

/// The PNG is drawn larger than it is shown: its lines have no half tones.
const PNG_ZOOM: i32 = 2;

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
pub(super) struct Picture {
    subtitle: String,
    curves: Vec<Curve>,
    /// The panels, upper one first.
    panels: [Words; 2],
}

/// What stands at a panel, and how far its ticks of lengths are apart.
#[derive(Debug, Clone, PartialEq)]
struct Words {
    title: String,
    y_title: &'static str,
    tick_ratio: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Curve {
    label: String,
    look: Look,
    /// Length in bytes and what the upper panel shows of it.
    upper: Points,
    /// Length in bytes and what the lower panel shows of it.
    lower: Points,
}

type Points = Vec<(f64, f64)>;

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
    OpenSquare,
    OpenTriangle,
}

/// Colours that people with any kind of colour vision tell apart (Okabe and
/// Ito's), and a marker each for those who print in grey.
fn look(transport: Transport) -> Look {
    let (color, marker, width) = match transport {
        Transport::Wiglaf => (RGBColor(0, 114, 178), Marker::Disc, 3),
        Transport::WiglafUdp => (RGBColor(0, 158, 115), Marker::Triangle, 2),
        Transport::WiglafPacket => (RGBColor(213, 94, 0), Marker::Square, 2),
        Transport::WiglafXdp => (RGBColor(204, 121, 167), Marker::Diamond, 2),
        Transport::WiglafXdpNative => (RGBColor(86, 180, 233), Marker::Ring, 2),
        Transport::WiglafMulticast => (RGBColor(86, 180, 233), Marker::Ring, 2),
        Transport::Tcp | Transport::Vader => (RGBColor(213, 94, 0), Marker::Square, 2),
        Transport::Ucx | Transport::UcxShm => (RGBColor(0, 158, 115), Marker::Triangle, 2),
        Transport::OfiTcp => (RGBColor(204, 121, 167), Marker::Diamond, 2),
        Transport::OfiRxd => (RGBColor(230, 159, 0), Marker::OpenTriangle, 2),
    };
    Look { color, marker, width }
}

/// Floors stay in the background: grey, thin, open markers.
fn floor_look(place: usize) -> Look {
    let looks = [
        (RGBColor(90, 90, 90), Marker::Ring),
        (RGBColor(125, 125, 125), Marker::OpenSquare),
        (RGBColor(160, 160, 160), Marker::OpenTriangle),
    ];
    let (color, marker) = looks[place % looks.len()];
    Look { color, marker, width: 1 }
}

impl Picture {
    /// The picture of a ping-pong.
    pub(super) fn of(report: &Report) -> Self {
        let mut curves: Vec<Curve> = report
            .contenders
            .iter()
            .map(|c| {
                let points = || c.points.iter().map(|p| (p.len, p.half_round_trip.p50_us));
                Curve {
                    label: c.label.clone(),
                    look: look(c.transport),
                    upper: rates(points()),
                    lower: small_times(points()),
                }
            })
            .collect();
        let longest = report.contenders.iter().flat_map(|c| &c.points).map(|p| p.len).max();
        // Shared memory stays out: it joins no two nodes, and its rate would
        // press all other curves to the bottom.
        let between_nodes = report.floors.iter().filter(|floor| floor.link != "shm");
        for (place, floor) in between_nodes.enumerate() {
            let latency = floor.latency.iter().map(|l| (l.len, l.p50_us));
            // A stream has no message size: a level line where messages are large.
            let stream = floor.stream_megabytes_per_s.zip(longest).filter(|(rate, _)| *rate > 0.0);
            let level = stream.into_iter().flat_map(|(rate, longest)| {
                [longest / 8, longest].map(|len| (len.max(1), len.max(1) as f64 / rate))
            });
            curves.push(Curve {
                label: format!("bare link {}", floor.link),
                look: floor_look(place),
                upper: rates(level),
                lower: small_times(latency),
            });
        }
        let small = format!("Latency of messages up to {}", length(SMALL_LEN_MAX));
        let panels = [
            Words { title: "Bandwidth".to_owned(), y_title: MB_PER_S, tick_ratio: 4 },
            Words { title: small, y_title: "half round trip, microseconds", tick_ratio: 2 },
        ];
        Self { subtitle: subtitle(&report.facts, report.rounds), curves, panels }
    }

    /// The picture of streams.
    pub(super) fn of_bandwidth(report: &bandwidth::Report) -> Self {
        let curve = |c: &bandwidth::Contender| {
            let of = |ways: Ways| {
                let points = c.points.iter().filter(|p| p.ways == ways && p.len > 0);
                points.map(|p| (p.len as f64, p.megabytes_per_s)).collect()
            };
            let (upper, lower) = (of(Ways::One), of(Ways::Both));
            Curve { label: c.label.clone(), look: look(c.transport), upper, lower }
        };
        let words = |ways: &str| Words {
            title: format!("Bandwidth {ways}, windows of {} messages", report.window),
            y_title: MB_PER_S,
            tick_ratio: 4,
        };
        Self {
            subtitle: subtitle(&report.facts, report.rounds),
            curves: report.contenders.iter().map(curve).collect(),
            panels: ["one way", "both ways at once"].map(words),
        }
    }
}

const MB_PER_S: &str = "million bytes per second";

fn subtitle(facts: &Facts, rounds: usize) -> String {
    let mtu = facts.nodes.get("mtu").map(|m| format!(", MTU {m}")).unwrap_or_default();
    format!(
        "medians of {rounds} interleaved rounds, {} cores, {}{mtu}, {}",
        facts.cores,
        facts.kernel,
        facts.date.split('T').next().unwrap_or_default()
    )
}

/// Bandwidth in MB/s from length and half round trip.
fn rates(times: impl Iterator<Item = (u64, f64)>) -> Points {
    times.filter(|p| p.0 > 0).map(|(len, us)| (len as f64, len as f64 / us)).collect()
}

/// Half round trips of small messages in microseconds. An empty message has
/// no place on a logarithmic axis.
fn small_times(times: impl Iterator<Item = (u64, f64)>) -> Points {
    let small = times.filter(|p| (1..=SMALL_LEN_MAX).contains(&p.0));
    small.map(|(len, us)| (len as f64, us)).collect()
}

/// Draws the picture as SVG.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn draw_svg(picture: &impl Draw, path: &Path) -> Result<()> {
    let mut text = String::new();
    {
        let size = size(picture.height(), 1);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(picture, &area, 1)?;
    }
    fs::write(path, text).map_err(file_error(path))
}

/// Draws the picture as PNG.
///
/// # Errors
/// When there is no font or the file cannot be written.
pub(super) fn draw_png(picture: &impl Draw, path: &Path) -> Result<()> {
    load_font()?;
    let size = size(picture.height(), PNG_ZOOM);
    let area = BitMapBackend::new(path, size).into_drawing_area();
    draw(picture, &area, PNG_ZOOM)
}

fn size(height: i32, zoom: i32) -> (u32, u32) {
    ((WIDTH * zoom).unsigned_abs(), (height * zoom).unsigned_abs())
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

fn draw<B: DrawingBackend>(picture: &impl Draw, area: &Area<B>, zoom: i32) -> Result<()> {
    let pen = Pen { area, zoom };
    let painted = picture.paint(&pen);
    let done = painted.and_then(|()| area.present().map_err(|e| e.to_string()));
    done.map_err(BenchError::Picture)
}

pub(super) type Painted = std::result::Result<(), String>;

/// What is drawn: it knows how to lay itself out.
pub(super) trait Draw {
    /// Its height in the layout's units; all are equally wide.
    fn height(&self) -> i32;

    /// Paints itself; an error is in the drawing library's words.
    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted;
}

impl Draw for Picture {
    fn height(&self) -> i32 {
        HEIGHT
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.paint(self)
    }
}

pub(super) struct Pen<'a, B: DrawingBackend> {
    area: &'a Area<B>,
    /// Device pixels for each unit of the layout.
    zoom: i32,
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
        let middle = top + (HEIGHT - top) * 53 / 100;
        let upper: Drawn = picture.curves.iter().map(|c| (c.look, c.upper.clone())).collect();
        let lower: Drawn = picture.curves.iter().map(|c| (c.look, c.lower.clone())).collect();
        let [above, below] = &picture.panels;
        self.panel(&panel(&upper, (top, middle - 66), above), &upper)?;
        self.panel(&panel(&lower, (middle + 30, HEIGHT - 58), below), &lower)
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
            self.text(&plain(tick), (LEFT - 11, y), 14, INK, (HPos::Right, VPos::Center))?;
        }
        for &tick in &panel.x_ticks {
            let x = panel.x.pixel(tick as f64);
            self.line(&[(x, top), (x, bottom)], GRID, 1)?;
            self.text(&length(tick), (x, bottom + 13), 14, INK, (HPos::Center, VPos::Top))?;
        }
        self.line(&[(LEFT, top), (LEFT, bottom), (RIGHT, bottom)], INK, 1)?;
        let middle = i32::midpoint(LEFT, RIGHT);
        self.text(panel.x_title, (middle, bottom + 36), 15, INK, (HPos::Center, VPos::Top))?;
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
        let points: Vec<_> = points.iter().map(|p| self.zoomed(*p)).collect();
        let width = width * self.zoom.unsigned_abs();
        let path = PathElement::new(points, color.stroke_width(width));
        self.area.draw(&path).map_err(|e| e.to_string())
    }

    fn zoomed(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.zoom, y * self.zoom)
    }

    fn marker(&self, (x, y): (i32, i32), look: Look) -> Painted {
        let fill: ShapeStyle = look.color.filled();
        let at = |dx: i32, dy: i32| self.zoomed((x + dx, y + dy));
        let polygon = |corners: &[(i32, i32)]| {
            let corners: Vec<_> = corners.iter().map(|(dx, dy)| at(*dx, *dy)).collect();
            self.area.draw(&Polygon::new(corners, fill))
        };
        let stroke = look.color.stroke_width(self.zoom.unsigned_abs());
        let outline = |corners: &[(i32, i32)]| {
            let corners: Vec<_> = corners.iter().map(|(dx, dy)| at(*dx, *dy)).collect();
            self.area.draw(&PathElement::new(corners, stroke))
        };
        let drawn = match look.marker {
            Marker::Disc => self.area.draw(&Circle::new(at(0, 0), 5 * self.zoom, fill)),
            Marker::Square => self.area.draw(&Rectangle::new([at(-4, -4), at(4, 4)], fill)),
            Marker::Triangle => polygon(&[(0, -6), (6, 5), (-6, 5)]),
            Marker::Diamond => polygon(&[(0, -6), (6, 0), (0, 6), (-6, 0)]),
            Marker::Ring => self.area.draw(&Circle::new(at(0, 0), 4 * self.zoom, stroke)),
            Marker::OpenSquare => outline(&[(-4, -4), (4, -4), (4, 4), (-4, 4), (-4, -4)]),
            Marker::OpenTriangle => outline(&[(0, -6), (6, 5), (-6, 5), (0, -6)]),
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
        let text = Text::new(text.to_owned(), self.zoomed(at), style);
        self.area.draw(&text).map_err(|e| e.to_string())
    }

    fn upward(&self, text: &str, at: (i32, i32)) -> Painted {
        let style = self
            .style(15, INK)
            .transform(FontTransform::Rotate270)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let text = Text::new(text.to_owned(), self.zoomed(at), style);
        self.area.draw(&text).map_err(|e| e.to_string())
    }

    fn style(&self, size: i32, color: RGBColor) -> TextStyle<'static> {
        (FontFamily::Name(FONT_NAME), size * self.zoom).into_font().color(&color)
    }
}

/// A number without a tail of noughts.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

type Drawn = Vec<(Look, Points)>;

/// The least and the greatest length, and the greatest value.
fn extent(curves: &Drawn) -> ((u64, u64), f64) {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let least = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let greatest = points().map(|p| p.0).fold(1.0, f64::max);
    let value = points().map(|p| p.1).fold(0.0, f64::max);
    ((if least.is_finite() { least as u64 } else { 1 }, greatest as u64), value)
}

fn panel(curves: &Drawn, (top, bottom): (i32, i32), words: &Words) -> Panel {
    let ((min, max), value) = extent(curves);
    let y_ticks = round_ticks(value, 6);
    let y_max = y_ticks.last().copied().unwrap_or(1.0);
    Panel {
        top,
        bottom,
        x: Scale::logarithmic((min as f64, max as f64), (LEFT, RIGHT)),
        y: Scale::linear((0.0, y_max), (bottom, top)),
        x_ticks: length_ticks(min, max, words.tick_ratio),
        y_ticks,
        x_title: "message size",
        y_title: words.y_title,
        title: words.title.clone(),
    }
}

#[cfg(test)]
mod tests;
