//! Small tables: aligned columns, every cell escaped.
//!
//! For a listing of any length see [`crate::format`]; this is for what fits a screen.

use crate::text;
pub use crate::text::Align;

/// The table as text, a line each; columns from `numbers_from` on are numbers, placed to the right.
#[must_use]
pub fn render(headings: &[&str], rows: &[Vec<String>], numbers_from: usize) -> String {
    let columns: Vec<(&str, Align)> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            let align = if at >= numbers_from {
                Align::Right
            } else {
                Align::Left
            };
            (*heading, align)
        })
        .collect();
    aligned(&columns, rows)
}

/// The table as text, a line each; every column is placed as it says.
#[must_use]
pub fn aligned(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let heading_row: Vec<String> = columns
        .iter()
        .map(|(heading, _)| (*heading).to_owned())
        .collect();
    let rows: Vec<Vec<String>> = std::iter::once(&heading_row)
        .chain(rows)
        .map(|row| {
            row.iter()
                .map(|cell| text::escape(cell).into_owned())
                .collect()
        })
        .collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| text::width(cell)).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in &rows {
        let start = out.len();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if at > 0 {
                out.push_str("  ");
            }
            text::pad(&mut out, cell, *width, columns[at].1, ' ');
        }
        let end = start + out[start..].trim_end().len();
        out.truncate(end);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["a".to_owned(), "1".to_owned()],
            vec!["長い".to_owned(), "100".to_owned()],
        ];
        assert_eq!(
            render(&["NAME", "N"], &rows, 1),
            "NAME    N\na       1\n長い  100\n"
        );
    }
}
