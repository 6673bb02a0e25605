//! Rows in columns.

/// Lays rows out in columns that are as wide as they need to be, two blanks between them. `cell` pads the text in a
/// column, counted from 0, to a width.
pub fn lay_out(rows: &[Vec<String>], cell: impl Fn(usize, &str, usize) -> String) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (text, width))| cell(column, text, *width));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
