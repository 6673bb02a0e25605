//! Printing: tables of 80 columns, JSON, and pipes that close early.

use std::io::{self, Write};

use serde::Serialize;
use wiglaf_base::table::Table;
use wiglaf_base::{Error, Result};

/// Writes text to standard output. A reader that has seen enough is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to standard output.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<()> {
    print_while_read(bytes).map(drop)
}

/// Writes bytes to standard output. Says whether there is still a reader.
pub(crate) fn print_while_read(bytes: &[u8]) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(format!("cannot write the output: {error}"))),
    }
}

/// Text of users, without what would move a terminal's cursor.
pub(crate) fn visible(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Writes a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(format!("cannot write JSON: {error}")))?;
    print(&(text + "\n"))
}

/// Lays rows out in columns, the first row being the heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    let mut table = Table::new("<  <", head);
    rows.iter().for_each(|row| table.row(row));
    table.within(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(visible("a\x1b[2J\n\u{9b}é"), "a\\u{1b}[2J\\n\\u{9b}é");
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [vec!["node".into(), "core".into()], vec!["node10".into(), "0".into()]];
        assert_eq!(table(&rows), "node    core\nnode10  0\n");
    }
}
