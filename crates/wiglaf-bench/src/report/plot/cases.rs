//! The picture of cases: a bar for everybody in each.

use plotters::backend::DrawingBackend;
use plotters::style::text_anchor::{HPos, VPos};

use super::super::board::value;
use super::super::table::figure;
use super::{Draw, FAINT, GRID, INK, Painted, Pen, RGBColor, RIGHT, look, subtitle};
use crate::outcome::{Case, Outcome};

const TOP: i32 = 76;
const CASE_HEAD: i32 = 30;
const BAR_STEP: i32 = 22;
const CASE_GAP: i32 = 14;
/// Bars begin here, and their names end before.
const BARS_LEFT: i32 = 300;
/// Room for the figure behind the longest bar.
const BARS_RIGHT: i32 = RIGHT - 80;
/// Who has no transport of its own.
const PLAIN: RGBColor = RGBColor(125, 125, 125);

/// What to draw.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::report) struct Cases {
    title: String,
    subtitle: String,
    cases: Vec<Case>,
}

impl Cases {
    /// The picture of a benchmark with cases.
    pub(in crate::report) fn of(outcome: &Outcome) -> Self {
        Self {
            title: outcome.title.clone(),
            subtitle: subtitle(&outcome.facts, outcome.rounds),
            cases: outcome.cases.clone(),
        }
    }
}

impl Draw for Cases {
    fn height(&self) -> i32 {
        let case = |case: &Case| CASE_HEAD + case.entries.len() as i32 * BAR_STEP + CASE_GAP;
        TOP + self.cases.iter().map(case).sum::<i32>() + 20
    }

    fn paint<B: DrawingBackend>(&self, pen: &Pen<'_, B>) -> Painted {
        pen.area.fill(&RGBColor(255, 255, 255)).map_err(|e| e.to_string())?;
        pen.text(&self.title, (24, 12), 22, INK, (HPos::Left, VPos::Top))?;
        pen.text(&self.subtitle, (24, 42), 14, FAINT, (HPos::Left, VPos::Top))?;
        let mut top = TOP;
        for case in &self.cases {
            pen.case(case, top)?;
            top += CASE_HEAD + case.entries.len() as i32 * BAR_STEP + CASE_GAP;
        }
        Ok(())
    }
}

impl<B: DrawingBackend> Pen<'_, B> {
    fn case(&self, case: &Case, top: i32) -> Painted {
        let title = format!("{}: {}, {}", case.name, case.what, case.unit);
        self.text(&title, (24, top + 12), 15, INK, (HPos::Left, VPos::Center))?;
        let limit = case.limit.as_ref().map(|l| l.value);
        let values = case.entries.iter().map(|e| e.value).chain(limit);
        let longest = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        let width = |value: f64| match longest > 0.0 && value.is_finite() {
            true => (f64::from(BARS_RIGHT - BARS_LEFT) * (value / longest).max(0.0)) as i32,
            false => 0,
        };
        let bottom = top + CASE_HEAD + case.entries.len() as i32 * BAR_STEP;
        self.line(&[(BARS_LEFT, top + CASE_HEAD - 3), (BARS_LEFT, bottom)], GRID, 1)?;
        for (place, entry) in (0i32..).zip(&case.entries) {
            let y = top + CASE_HEAD + place * BAR_STEP;
            let color = entry.transport.map_or(PLAIN, |transport| look(transport).color);
            let end = BARS_LEFT + width(entry.value).max(1);
            self.bar((BARS_LEFT, y), (end, y + BAR_STEP - 7), color)?;
            let middle = y + (BAR_STEP - 7) / 2;
            let at = (HPos::Right, VPos::Center);
            self.text(&entry.who, (BARS_LEFT - 8, middle), 14, INK, at)?;
            let value = value(entry);
            self.text(&value, (end + 6, middle), 14, INK, (HPos::Left, VPos::Center))?;
        }
        if let Some(limit) = &case.limit {
            let x = BARS_LEFT + width(limit.value);
            self.line(&[(x, top + 16), (x, bottom)], INK, 1)?;
            let words = format!("{} {}", limit.name, figure(limit.value));
            self.text(&words, (x - 4, top + 16), 13, FAINT, (HPos::Right, VPos::Center))?;
        }
        Ok(())
    }
}
