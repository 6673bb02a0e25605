//! Wall speed-up against the number of nodes, a curve for each way, under the
//! line where twice the nodes take half the time.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::scale::{Scale, round_ticks};
use super::{
    Draw, FAINT, GRID, INK, LEFT, Look, Marker, Painted, Pen, RGBColor, RIGHT, plain, subtitle,
};
use crate::launch::Transport;
use crate::transformation::{Report, Way};

const TOP: i32 = 130;
const BOTTOM: i32 = 560;
const HEIGHT: i32 = 620;

/// Curves of speed-up.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct SpeedUp {
    title: String,
    subtitle: String,
    nodes_max: usize,
    /// Of those, the most that were there: published ones share no cores of ours.
    nodes_here: usize,
    cores: usize,
    curves: Vec<Curve>,
}

/// Nodes and speed-up of one way.
#[derive(Debug, Clone, PartialEq)]
struct Curve {
    label: String,
    look: Look,
    points: Vec<(f64, f64)>,
}

impl SpeedUp {
    /// The picture of a transformation.
    pub(in crate::report) fn of(report: &Report) -> Self {
        let curve = |way| {
            let points = (1..=report.nodes_max())
                .filter_map(|nodes| Some((nodes as f64, report.at(way, nodes)?.speed_up)));
            Curve { label: way.label().to_owned(), look: look(way), points: points.collect() }
        };
        Self {
            title: format!("Integral transformation of HCNO, {}: speed-up", report.basis),
            subtitle: subtitle(&report.facts, report.rounds),
            nodes_max: report.nodes_max(),
            nodes_here: report.nodes_max(),
            cores: report.facts.cores,
            curves: report.ways().into_iter().map(curve).collect(),
        }
    }

    /// The picture of any program over several transports.
    pub(in crate::report) fn of_curves(words: &SpeedUpWords<'_>, curves: &[SpeedUpCurve]) -> Self {
        let look = |curve: &SpeedUpCurve| match (super::look(curve.transport), curve.is_published) {
            (look, false) => look,
            (look, true) => Look { marker: Marker::OpenSquare, width: 1, ..look },
        };
        let curve = |curve: &SpeedUpCurve| Curve {
            label: curve.label.clone(),
            look: look(curve),
            points: curve.points.iter().map(|(nodes, up)| (*nodes as f64, *up)).collect(),
        };
        let of = |is_meant: &dyn Fn(&SpeedUpCurve) -> bool| {
            let meant = curves.iter().filter(|curve| is_meant(curve));
            meant.flat_map(|curve| &curve.points).map(|point| point.0).max().unwrap_or(1)
        };
        Self {
            title: words.title.to_owned(),
            subtitle: words.subtitle.to_owned(),
            nodes_max: of(&|_| true),
            nodes_here: of(&|curve| !curve.is_published),
            cores: words.cores,
            curves: curves.iter().map(curve).collect(),
        }
    }
}

/// What stands above a picture of speed-up.
#[derive(Debug, Clone, Copy)]
pub struct SpeedUpWords<'a> {
    /// In large letters.
    pub title: &'a str,
    /// Below it.
    pub subtitle: &'a str,
    /// Cores that all nodes share, or as many as there are nodes where each has its own.
    pub cores: usize,
}

/// One curve of speed-up against nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct SpeedUpCurve {
    /// Its name.
    pub label: String,
    /// Says its colour.
    pub transport: Transport,
    /// Whether it is by others: drawn thin, with open markers.
    pub is_published: bool,
    /// Nodes and speed-up.
    pub points: Vec<(usize, f64)>,
}

fn look(way: Way) -> Look {
    let (color, marker, width) = match way {
        Way::Wiglaf => (RGBColor(0, 114, 178), Marker::Disc, 3),
        Way::WiglafMount => (RGBColor(86, 180, 233), Marker::Ring, 2),
        Way::Nfs => (RGBColor(213, 94, 0), Marker::Square, 2),
        Way::Sshfs => (RGBColor(0, 158, 115), Marker::Triangle, 2),
        Way::Local => (FAINT, Marker::OpenSquare, 1),
    };
    Look { color, marker, width }
}

impl Draw for SpeedUp {
    fn height(&self) -> i32 {
        HEIGHT
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        let upper_left = (HPos::Left, VPos::Top);
        pen.text(&self.title, (LEFT, 12), 24, INK, upper_left)?;
        pen.text(&self.subtitle, (LEFT, 42), 14, FAINT, upper_left)?;
        if self.nodes_here > self.cores {
            let words = format!("{} nodes share {} cores", self.nodes_here, self.cores);
            pen.text(&words, (LEFT, 60), 14, FAINT, upper_left)?;
        }
        // Long names have a row for three.
        let is_long = self.curves.iter().any(|curve| curve.label.len() > 20);
        let (in_row, step) = if is_long { (3, 290) } else { (5, 180) };
        for (place, Curve { label, look, .. }) in self.curves.iter().enumerate() {
            let (column, row) = (place % in_row, place / in_row);
            let x = LEFT + step * i32::try_from(column).unwrap_or(0);
            let y = 88 + 20 * i32::try_from(row).unwrap_or(0);
            pen.line(&[(x, y), (x + 34, y)], look.color, look.width)?;
            pen.marker((x + 17, y), *look)?;
            pen.text(label, (x + 42, y), 15, INK, (HPos::Left, VPos::Center))?;
        }
        pen.speed_up(self)
    }
}

impl<B: DrawingBackend> Pen<'_, B> {
    fn speed_up(&self, picture: &SpeedUp) -> Painted {
        let most = picture.nodes_max as f64;
        // Room at both sides of the first and the last number.
        let x = Scale::linear((0.5, most + 0.5), (LEFT, RIGHT));
        let points = picture.curves.iter().flat_map(|curve| &curve.points);
        let ticks = round_ticks(points.map(|point| point.1).fold(most, f64::max), 6);
        let y = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (BOTTOM, TOP));
        for &tick in &ticks {
            let at = y.pixel(tick);
            self.line(&[(LEFT, at), (RIGHT, at)], GRID, 1)?;
            self.text(&plain(tick), (LEFT - 10, at), 14, INK, (HPos::Right, VPos::Center))?;
        }
        // Of many, some.
        for nodes in (1..=picture.nodes_max).step_by(picture.nodes_max.div_ceil(32)) {
            let at = (x.pixel(nodes as f64), BOTTOM + 8);
            self.text(&nodes.to_string(), at, 14, INK, (HPos::Center, VPos::Top))?;
        }
        let ideal = [1.0, most].map(|n| (x.pixel(n), y.pixel(n)));
        self.line(&ideal, FAINT, 1)?;
        let above = (ideal[1].0 + 8, ideal[1].1);
        self.text("one node's time / nodes", above, 13, FAINT, (HPos::Left, VPos::Center))?;
        for Curve { look, points, .. } in picture.curves.iter().rev() {
            let at: Vec<_> = points.iter().map(|(n, s)| (x.pixel(*n), y.pixel(*s))).collect();
            self.line(&at, look.color, look.width)?;
            at.iter().try_for_each(|point| self.marker(*point, *look))?;
        }
        self.line(&[(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1)?;
        let middle = i32::midpoint(LEFT, RIGHT);
        self.text("nodes", (middle, BOTTOM + 30), 15, INK, (HPos::Center, VPos::Top))?;
        self.upward("wall speed-up", (20, i32::midpoint(TOP, BOTTOM)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformation::tests::sample;

    #[test]
    fn each_way_has_a_curve_from_one_node_on() {
        let picture = SpeedUp::of(&sample());
        let curve = |way: Way, points: [(f64, f64); 2]| Curve {
            label: way.label().to_owned(),
            look: look(way),
            points: points.to_vec(),
        };
        let expected = [
            curve(Way::Wiglaf, [(1.0, 1.0), (2.0, 2.0)]),
            curve(Way::Nfs, [(1.0, 1.0), (2.0, 0.5)]),
        ];
        assert_eq!(picture.curves, expected);
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("picture.svg");
        super::super::draw_svg(&picture, &file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("Wiglaf library") && text.contains("wall speed-up"));
    }

    #[test]
    fn any_curves_make_a_picture() {
        let curve = |label: &str, transport, last| SpeedUpCurve {
            label: label.to_owned(),
            transport,
            is_published: false,
            points: vec![(1, 1.0), (2, 1.7), (4, last)],
        };
        let mut published = SpeedUpCurve { is_published: true, ..curve("P", Transport::Tcp, 3.0) };
        published.points.push((8, 4.0));
        let curves =
            [curve("Wiglaf", Transport::Wiglaf, 6.5), curve("TCP", Transport::Tcp, 2.0), published];
        let words = SpeedUpWords { title: "prog", subtitle: "medians", cores: 2 };
        let picture = SpeedUp::of_curves(&words, &curves);
        let looks = picture.curves.iter().map(|curve| (curve.look.marker, curve.look.width));
        assert_eq!(
            looks.collect::<Vec<_>>(),
            [(Marker::Disc, 3), (Marker::Square, 2), (Marker::OpenSquare, 1)]
        );
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("picture.svg");
        super::super::draw_svg(&picture, &file).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("TCP") && text.contains("4 nodes share 2 cores"));
    }
}
