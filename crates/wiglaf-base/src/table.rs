//! The one writer of tables: for terminals, where lines are short, and for documents in Markdown.

/// Columns of a terminal.
const TERMINAL: usize = 80;

/// Rows of cells, the first of which is the head.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    gap: usize,
    is_right: bool,
    width: usize,
    /// Whether its cells have no say in its width.
    is_fixed: bool,
}

impl Table {
    /// Begins a table with its head. The layout tells each column's side, `<` for names or `>` for figures, behind the
    /// blanks before it and in front of its width, as in `<14  >9 >9`. Without a width, a column is as wide as its
    /// widest cell. The last one stands for all further ones.
    pub fn new(layout: &str, head: impl IntoIterator<Item: ToString>) -> Self {
        let (mut columns, mut gap) = (Vec::<Column>::new(), 0);
        for sign in layout.chars() {
            match (sign.to_digit(10), columns.last_mut()) {
                (Some(digit), Some(column)) => {
                    (column.width, column.is_fixed) = (10 * column.width + digit as usize, true);
                }
                _ if sign == ' ' => gap += 1,
                _ => {
                    columns.push(Column { gap, is_right: sign == '>', ..Column::default() });
                    gap = 0;
                }
            }
        }
        let mut table = Self { columns, rows: Vec::new() };
        table.row(head);
        table
    }

    /// Adds a row. One of a single cell is words for terminals, which go across the columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item: ToString>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.to_string()).collect();
        if cells.len() != 1 {
            let last = self.columns.last().copied().unwrap_or_default();
            let last = Column { width: if last.is_fixed { last.width } else { 0 }, ..last };
            self.columns.resize(self.columns.len().max(cells.len()), last);
            let free = self.columns.iter_mut().zip(&cells).filter(|(column, _)| !column.is_fixed);
            free.for_each(|(column, cell)| column.width = column.width.max(cell.chars().count()));
        }
        self.rows.push(cells);
    }

    /// Whether it has nothing but its head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Writes it for a terminal: columns for which there is no room stand below, behind the names again.
    #[must_use]
    pub fn text(&self) -> String {
        self.within(TERMINAL)
    }

    /// Writes it in lines of so many columns, if no two cells are wider.
    #[must_use]
    pub fn within(&self, most: usize) -> String {
        let wide = |column: &Column| column.gap + column.width;
        let (mut blocks, mut from, mut total) = (Vec::new(), 1, 0);
        for (at, column) in self.columns.iter().enumerate() {
            total += wide(column);
            if total > most && at > from {
                blocks.push(from..at);
                (from, total) = (at, wide(&self.columns[0]) + wide(column));
            }
        }
        blocks.push(from..self.columns.len());
        let mut text = String::new();
        for (number, block) in blocks.into_iter().enumerate() {
            for row in self.rows.iter().filter(|row| number == 0 || row.len() > 1) {
                let cells = row.iter().zip(&self.columns).enumerate();
                let here = cells.filter(|(at, _)| *at == 0 || block.contains(at));
                let line: String = here.map(|(at, (cell, column))| column.pad(at, cell)).collect();
                text = text + line.trim_end() + "\n";
            }
        }
        text
    }

    /// Writes it for a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let rows = self.rows.iter().filter(|row| row.len() > 1);
        let mut rows = rows.map(|row| format!("| {} |\n", row.join(" | ")));
        let sides = self.columns.iter().map(|c| if c.is_right { "---:|" } else { "---|" });
        let head = rows.next().unwrap_or_default().replace("  ", " ");
        format!("{head}|{}\n{}", sides.collect::<String>(), rows.collect::<String>())
    }
}

impl Column {
    fn pad(&self, at: usize, cell: &str) -> String {
        let Self { gap, width, .. } = *self;
        match self.is_right {
            true => format!("{:gap$}{cell:>width$}", ""),
            // A name that is too long for its column has a line of its own.
            false if at == 0 && cell.chars().count() > width => {
                format!("{:gap$}{cell}\n{:gap$}{:width$}", "", "", "")
            }
            false => format!("{:gap$}{cell:<width$}", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(layout: &str) -> Table {
        let mut table = Table::new(layout, ["", "one", "two"]);
        table.row(["a", "1.00", "2"]);
        table.row(["  words"]);
        table.row(["longer", "-", ""]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_they_are_told_or_need_to_be() {
        assert_eq!(
            sample(" <4  >6 <").text(),
            "          one two\n a       1.00 2\n   words\n longer\n            -\n"
        );
        assert_eq!(
            sample("<  >").text(),
            "         one  two\na       1.00    2\n  words\nlonger     -\n"
        );
    }

    #[test]
    fn columns_without_room_stand_below_behind_the_names_again() {
        let text = sample("<  >").within(12);
        assert_eq!(
            text,
            "         one\na       1.00\n  words\nlonger     -\n        two\na         2\nlonger\n"
        );
    }

    #[test]
    fn documents_know_the_side_of_each_column() {
        let expected = "| | one | two |\n|---|---:|---:|\n| a | 1.00 | 2 |\n| longer | - |  |\n";
        assert_eq!(sample("<  >").markdown(), expected);
    }
}
