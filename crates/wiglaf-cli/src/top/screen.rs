//! The terminal of `wiglaf top`. Nodes are asked by a thread, so that a silent one keeps no key waiting.

use std::io::IsTerminal;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style, Stylize};
use ratatui::widgets::{Cell, Paragraph, Row as Line, Table};
use ratatui::{DefaultTerminal, Frame};
use wiglaf_base::{Error, Result};

use super::Look;
use super::view::{self, Row};
use crate::output::visible;

/// How often keys and new looks are waited for in turns.
const TICK: Duration = Duration::from_millis(100);
/// Hotter than that is red.
const HOT_C: f64 = 85.0;

/// Shows looks until somebody presses q.
pub(super) fn run(every: Duration, look: impl Fn() -> Vec<Row> + Send + 'static) -> Result<()> {
    if !std::io::stdout().is_terminal() {
        return Err(Error::new(
            "this draws on a terminal, and there is none; add --once or --json",
        ));
    }
    let (send, looks) = mpsc::channel();
    // It ends with the process; a node that is silent cannot be hurried.
    std::thread::spawn(move || {
        loop {
            let began = Instant::now();
            let look = Look { rows: look(), at: Instant::now() };
            if send.send(look).is_err() {
                return;
            }
            std::thread::sleep(every.saturating_sub(began.elapsed()));
        }
    });
    let mut terminal = ratatui::init();
    let shown = show(&mut terminal, &looks);
    ratatui::restore();
    shown.map_err(|error| Error::new(format!("cannot draw on the terminal: {error}")))
}

fn show(terminal: &mut DefaultTerminal, looks: &mpsc::Receiver<Look>) -> std::io::Result<()> {
    let (mut before, mut now): (Option<Look>, Option<Look>) = (None, None);
    loop {
        while let Ok(look) = looks.try_recv() {
            before = now.replace(look);
        }
        terminal.draw(|frame| draw(frame, before.as_ref(), now.as_ref()))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                return Ok(());
            }
        }
    }
}

/// One picture.
fn draw(frame: &mut Frame<'_>, before: Option<&Look>, now: Option<&Look>) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    let Some(now) = now else {
        frame.render_widget(Paragraph::new("asking the nodes ..."), top);
        return;
    };
    let silent = now.rows.iter().filter(|row| row.error.is_some()).count();
    let title = format!("wiglaf top: {} nodes, {silent} silent; q ends", now.rows.len());
    frame.render_widget(Paragraph::new(title).bold(), top);
    let before = before.map(|before| {
        (&before.rows[..], now.at.saturating_duration_since(before.at).as_secs_f64())
    });
    let cells = view::table(&now.rows, before);
    let width = |column: usize| {
        let longest = cells.iter().map(|row| row[column].chars().count()).max();
        Constraint::Length(u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX))
    };
    let widths: Vec<Constraint> = (0..cells[0].len()).map(width).collect();
    let style = |row: &Row| match &row.here {
        None => Style::new().fg(Color::Red),
        Some(here) if here.temperature_c.is_some_and(|degrees| degrees > HOT_C) => {
            Style::new().fg(Color::Red)
        }
        Some(_) => Style::new(),
    };
    let line = |cells: &Vec<String>| Line::new(cells.iter().map(|cell| Cell::new(visible(cell))));
    let lines = cells[1..].iter().zip(&now.rows).map(|(cells, row)| line(cells).style(style(row)));
    frame.render_widget(Table::new(lines, widths).header(line(&cells[0]).bold()), middle);
    if let Some(error) = now.rows.iter().find_map(|row| row.error.as_ref()) {
        frame.render_widget(Paragraph::new(visible(error)).fg(Color::Red), bottom);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::tests::row;
    use super::*;

    fn lines(before: Option<&Look>, now: Option<&Look>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(90, 6)).unwrap();
        terminal.draw(|frame| draw(frame, before, now)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y: u16| (0..90).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..6).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn picture_has_a_line_for_each_node_and_says_why_one_is_silent() {
        assert_eq!(lines(None, None)[0], "asking the nodes ...");
        let began = Instant::now();
        let error = "pc2 does not answer\u{1b}[2J".to_owned();
        let silent = Row { node: "pc2".to_owned(), here: None, error: Some(error) };
        let first = Look { at: began, rows: vec![row("pc1", 0, 0), silent.clone()] };
        let rows = vec![row("pc1", 4_000_000, 20), silent];
        let second = Look { at: began + Duration::from_secs(2), rows };
        let seen = lines(Some(&first), Some(&second));
        assert_eq!(seen[0], "wiglaf top: 2 nodes, 1 silent; q ends");
        assert!(seen[1].starts_with("node load"), "{seen:?}");
        assert!(seen[2].contains("pc1  1.50/4 2.0/16G 61C") && seen[2].ends_with("up"), "{seen:?}");
        assert!(seen[2].contains(" 2.0  10 "), "{seen:?}");
        assert!(seen[3].ends_with("does not tell"), "{seen:?}");
        assert!(seen[5].contains("pc2 does not answer\\u{1b}"), "{seen:?}");
    }
}
