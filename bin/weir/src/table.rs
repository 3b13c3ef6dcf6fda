//! Small tables: aligned columns, every cell escaped.
//!
//! For a listing of any length see [`crate::format`]; this is for what fits a screen.

use crate::text;

/// The table as text, a line each; columns from `numbers_from` on are numbers, placed to the right.
#[must_use]
pub fn render(headings: &[&str], rows: &[Vec<String>], numbers_from: usize) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .map(|cell| text::escape(cell).into_owned())
                .collect()
        })
        .collect();
    let rows = &rows;
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            rows.iter()
                .filter_map(|row| row.get(at))
                .map(|cell| text::width(cell))
                .max()
                .unwrap_or(0)
                .max(heading.len())
        })
        .collect();
    let mut out = String::new();
    let heading_row: Vec<String> = headings
        .iter()
        .map(|heading| (*heading).to_owned())
        .collect();
    for row in std::iter::once(&heading_row).chain(rows) {
        let start = out.len();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if at > 0 {
                out.push_str("  ");
            }
            let align = if at >= numbers_from {
                text::Align::Right
            } else {
                text::Align::Left
            };
            text::pad(&mut out, cell, *width, align, ' ');
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
